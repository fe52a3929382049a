"""The HTTP side as a WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

from portal.environment import current
from portal.private_files import protect

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
protect(current())
application = get_wsgi_application()
