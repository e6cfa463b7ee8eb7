"""Goal: under the rules of the packaged unit the documented uses work: a store, a private configuration file, backups,
and connections to other hosts.
Method: systemd's own tools on the unit; and the unit's ExecStart as another user, in a mount namespace where only the
folders that the unit names can be written. Either is left out where the machine has no such means."""
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import check, eq, main, scene

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / 'packaging' / 'palimpsest.service'
SOCKET = ROOT / 'packaging' / 'palimpsest.socket'
EXPOSURE_MAX = 2.0      # of systemd-analyze security, of 10
USER = 65534
# $1 binary, $2 folder with the configuration, $3 user; behind them the folders that the unit lets be written.
STAGE = r'''
set -e
binary=$1 conf=$2 user=$3; shift 3
mount --make-rprivate /
mount -t tmpfs none /var
for folder; do mkdir -p "$folder"; chown "$user:$user" "$folder"; mount --bind "$folder" "$folder"; done
mount -o remount,bind,ro /var; mount -o remount,bind,ro /
as="setpriv --reuid $user --regid $user --clear-groups --no-new-privs --bounding-set=-all"
$as "$binary" serve --config "$conf/palimpsest.yaml" --data /var/lib/palimpsest --listen 127.0.0.1:0 >"$conf/out" &
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q listening "$conf/out" && break; sleep 0.5; done
server=$(sed -n 's/^listening on //p' "$conf/out")
echo x | $as "$binary" put T 1 - --server "$server"
$as "$binary" backup /var/backups/palimpsest/p1 --server "$server"
$as "$binary" check --data /var/backups/palimpsest/p1
$as "$binary" backup /var/elsewhere/p1 --server "$server" && exit 9
kill %1; wait %1
'''


def _service():
    unit = configparser.RawConfigParser(strict=False, delimiters='=')
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    return unit['Service']


@scene
def the_unit_is_one_and_stays_hardened(binary):
    service = _service()
    for name in ('IPAddressDeny', 'DynamicUser'):
        check(name not in service, f'{name} stops documented uses')
    sysusers = (ROOT / 'packaging' / 'palimpsest.sysusers').read_text()
    check(re.search(rf'^u {service["User"]} ', sysusers, re.M), 'the user is made')
    if shutil.which('systemd-analyze') is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'palimpsest.service')
        path.write_text(UNIT.read_text().replace('/usr/bin/palimpsest', str(pathlib.Path(binary).resolve())))
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', str(path)], capture_output=True, text=True, timeout=60,
                              check=False)
        eq((done.returncode, done.stderr), (0, ''))
        (path.parent / SOCKET.name).write_text(SOCKET.read_text())
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', str(path.parent / SOCKET.name)], capture_output=True,
                              text=True, timeout=60, check=False)
        eq((done.returncode, done.stderr), (0, ''))
        done = subprocess.run(['systemd-analyze', 'security', '--offline=true', str(path)], capture_output=True, text=True,
                              timeout=60, check=False)
        exposure = re.search(r'exposure level for \S+: ([0-9.]+)', done.stdout)
        check(exposure and float(exposure.group(1)) <= EXPOSURE_MAX, done.stdout[-300:] + done.stderr)


@scene
def a_store_and_its_backup_live_where_the_unit_lets_them(binary):
    if os.geteuid() != 0 or shutil.which('unshare') is None or shutil.which('setpriv') is None:
        return
    service = _service()
    writable = ['/var/lib/' + service['StateDirectory'], service['ReadWritePaths'].lstrip('-')]
    operations = (ROOT / 'docs' / 'operations.md').read_text()
    check(f'palimpsest backup {writable[1]}/' in operations, 'the documented backup goes there')
    check(f'--data {writable[0]}' in service['ExecStart'], service['ExecStart'])
    with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
        conf = pathlib.Path(folder)
        conf.chmod(0o755)
        (conf / 'out').touch()
        config = conf / 'palimpsest.yaml'
        config.write_text('page: { grace_ttl: 1d }\n')
        os.chown(config, 0, USER)
        config.chmod(0o640)
        copy = conf / 'palimpsest'
        shutil.copy(binary, copy)
        if subprocess.run(['unshare', '--mount', 'true'], check=False, timeout=60, capture_output=True).returncode != 0:
            return
        done = subprocess.run(['unshare', '--mount', 'bash', '-c', STAGE, 'bash', str(copy), folder, str(USER), *writable],
                              capture_output=True, text=True, timeout=120, check=False)
        eq(done.returncode, 0, done.stdout + done.stderr)
        check('backup in /var/backups/palimpsest/p1: ' in done.stdout and 'no damage found' in done.stdout, done.stdout)
        check('cannot make the folder /var/elsewhere/p1' in done.stderr, done.stderr)


if __name__ == '__main__':
    main()
