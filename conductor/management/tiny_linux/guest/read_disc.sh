#!/bin/sh
# Does what the config drive says: keys and password of root, and user data that are a script. Writes the results to /run/report.
disc=/dev/sr0
for _ in 1 2 3 4 5 6 7 8 9 10; do # the drive is looked for while this runs
    [ -e "$disc" ] && break
    sleep 0.3
done
[ -e "$disc" ] && mount -t iso9660 -o ro "$disc" /mnt || exit 0

folder=/mnt/openstack/latest
value() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p" "$folder/meta_data.json" | head -n 1; }

echo "disc uuid $(value uuid) name $(value hostname)" > /run/report
key=$(value data)
if [ -n "$key" ]; then
    mkdir -p -m 700 /root/.ssh
    echo "$key" > /root/.ssh/authorized_keys
    echo "disc key ${key%% *}" >> /run/report
fi
password=$(value admin_pass)
if [ -n "$password" ]; then
    echo "root:$password" | chpasswd > /dev/null && echo "disc password set" >> /run/report
fi
if head -n 1 "$folder/user_data" 2> /dev/null | grep -q '^#!'; then
    cp "$folder/user_data" /run/user_data && chmod 700 /run/user_data && /run/user_data >> /run/report 2>&1
fi
umount /mnt
