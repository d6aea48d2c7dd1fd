#!/bin/sh
# Stands for journalctl where no systemd runs.
exec tail -n 50 /var/log/troupe.log
