#!/bin/sh
# Sets passwords from lines of user:password; with -e they are encrypted already. Its busybox has none for this.
while IFS=: read -r user password; do
    [ "$1" = "-e" ] || password=$(echo "$password" | mkpasswd -s -m sha512)
    sed -i "s|^$user:[^:]*:|$user:$password:|" /etc/passwd
done
