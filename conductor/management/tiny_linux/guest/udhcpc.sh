#!/bin/sh
# Called by udhcpc with what was leased: takes MTU, address, routes and, from the first card, the host name.
case $1 in
deconfig)
    ip link set "$interface" up
    ;;
bound | renew)
    [ -n "$mtu" ] && ip link set "$interface" mtu "$mtu"
    ip addr replace "$ip/$mask" dev "$interface"
    [ -n "$router" ] && ip route replace default via "${router%% *}"
    set -- $staticroutes
    while [ $# -ge 2 ]; do
        case $2 in # no router is in between
        0.0.0.0) ip route replace "$1" dev "$interface" ;;
        *) ip route replace "$1" via "$2" ;;
        esac
        shift 2
    done
    [ -n "$hostname" ] && [ "$(hostname)" = tiny-linux ] && hostname "$hostname"
    grep -qsx "$ip" /run/addresses || echo "$ip" >> /run/addresses
    ;;
esac
exit 0
