"""Changes of images by users, and the image proxy of the Compute API.

Images that servers make belong to `servers`; rows and data of images to `conductor/image`.
"""
