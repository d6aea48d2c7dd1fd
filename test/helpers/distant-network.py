"""Runs a command in a network of its own, whose address 10.9.0.2 is the command's own 10.9.0.1 a round trip away.

usage: unshare --net python3 distant-network.py <round trip in seconds> <command…>

Packets to 10.9.0.2 leave by a TUN device, and come back by it half a round trip later with their addresses exchanged: their
checksums stay right. Source: https://docs.kernel.org/networking/tuntap.html
"""
import fcntl, heapq, os, select, struct, subprocess, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
one_way = float(sys.argv[1]) / 2
link = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(link, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
for line in ("link set lo up", "address add 10.9.0.1/24 dev tun0", "link set tun0 up"):
    subprocess.run(["ip", *line.split()], check=True)
command = subprocess.Popen(sys.argv[2:])
waiting, count = [], 0
while command.poll() is None:
    wait = max(0, waiting[0][0] - time.monotonic()) if waiting else 0.05
    if select.select([link], [], [], wait)[0]:
        packet = os.read(link, 1 << 16)
        if packet[0] >> 4 == 4:
            count += 1
            back = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            heapq.heappush(waiting, (time.monotonic() + one_way, count, back))
    while waiting and waiting[0][0] <= time.monotonic():
        os.write(link, heapq.heappop(waiting)[2])
sys.exit(command.returncode)
