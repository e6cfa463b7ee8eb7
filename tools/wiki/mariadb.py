"""MariaDB under a wiki of this folder, instead of SQLite: a primary, and a replica that is behind by as long as wanted.

    database = MariaDB(folder / 'db')
    wiki = Wiki(folder, database).up()
    database.delay(30)          # the replica is so many seconds behind from now on
    database.reads('replica')   # who asks the wiki is answered from there; 'primary'; 'either': as chance has it
    database.knows_lag(False)   # MediaWiki does not notice it, as when it measures the lag of something else

Calls of the wiki that carry HEADERS, as those of Wiki itself do, and maintenance scripts read and write the primary
alone: they are the truth beside what everybody else is told. script/deps lag has the packages. Both servers run as who
calls this, from the folder, on free ports of 127.0.0.1, and are known by their pid.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from wiki import WikiError, free_port

HEADERS = {'X-From-Primary': '1'}
USER, PASSWORD, NAME = 'wiki', 'a-test-password-2', 'wiki'
START_TIMEOUT = 120
END_TIMEOUT = 60
CATCH_UP_TIMEOUT = 120
PROGRAMS = ('mariadbd', 'mariadb-install-db', 'mariadb')
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
OPTIONS = ('--skip-name-resolve', '--skip-log-error', '--performance-schema=OFF', '--innodb-buffer-pool-size=64M',
           '--character-set-server=binary', '--bind-address=127.0.0.1', '--binlog-format=ROW', '--max-connections=100')
# What is lost when the machine goes down is lost with the folder.
FORGETS = ('--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0', '--innodb-flush-method=nosync')
KEEPS = ('--innodb-flush-log-at-trx-commit=1', '--sync-binlog=1')


class MariaDB:
    headers = HEADERS

    def __init__(self, folder, durable=False):
        """durable: what is committed is on disk, as on a wiki's own machine; for benchmarks."""
        self.folder, self.options = pathlib.Path(folder).resolve(), OPTIONS + (KEEPS if durable else FORGETS)

    # ---- what tools/wiki/wiki.py asks

    def up(self):
        """Both run, and the replica copies."""
        missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
        if missing:
            raise WikiError(f'not installed: {", ".join(missing)}; script/deps lag does it')
        is_new = not (self.folder / 'replica/made').exists()
        if is_new:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._make()
        for number, name in enumerate(('primary', 'replica')):
            self._start(name, number + 1)
        if is_new:
            self._sql('primary', f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"
                                 f"GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;")
            (self.folder / 'replica/made').touch()
        self._sql('replica', f"STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self._port('primary')},"
                             f"MASTER_USER='{USER}', MASTER_PASSWORD='{PASSWORD}', MASTER_USE_GTID=slave_pos; START SLAVE;")

    def down(self):
        for name in ('replica', 'primary'):
            pid = self._pid(name)
            if pid is None:
                continue
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + END_TIMEOUT
            while self._pid(name) is not None and time.monotonic() < until:
                time.sleep(0.02)
            if self._pid(name) is not None:
                os.kill(pid, signal.SIGKILL)

    def install_arguments(self):
        """Of MediaWiki's installer."""
        return ['--dbtype', 'mysql', '--dbserver', f'127.0.0.1:{self._port("primary")}', '--dbname', NAME,
                '--dbuser', USER, '--dbpass', PASSWORD]

    def settings(self, wiki):
        """Written at each start: the ports may be others."""
        shutil.copy(pathlib.Path(__file__).parent / 'mariadb.php', wiki / 'settings.d/mariadb.php')
        (wiki / 'settings.d/mariadb.json').write_text(json.dumps(
            {'folder': str(self.folder), 'ports': [self._port('primary'), self._port('replica')], 'user': USER,
             'password': PASSWORD, 'name': NAME}))

    # ---- what tests ask

    def delay(self, seconds):
        """How long after the primary the replica has what was written. What it lacks it has as long after as before."""
        self._sql('replica', f'STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={int(seconds)}; START SLAVE;')

    def reads(self, where):
        self._say('reads', where)

    def knows_lag(self, knows):
        self._say('lag', 'known' if knows else 'unknown')

    def caught_up(self):
        """Returns when the replica has all that the primary has; its delay goes on to hold."""
        place = self._sql('primary', 'SELECT @@gtid_binlog_pos').strip()
        got = self._sql('replica', f"SELECT MASTER_GTID_WAIT('{place}', {CATCH_UP_TIMEOUT})").strip()
        if got != '0':
            raise WikiError(f'the replica did not come to {place}')

    # ---- the processes

    def _say(self, name, text):
        part = self.folder / f'{name}.part'
        part.write_text(text)
        part.rename(self.folder / name)

    def _make(self):
        user = ['--user=root'] if os.geteuid() == 0 else []
        for name in ('primary', 'replica'):
            (self.folder / name / 'data').mkdir(parents=True)
        with open(self.folder / 'install.log', 'wb') as log:
            done = subprocess.run(['mariadb-install-db', '--no-defaults', *user, '--auth-root-authentication-method=normal',
                                   '--skip-test-db', '--skip-name-resolve', f'--datadir={self.folder}/primary/data'],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
                                  env={**os.environ, 'PATH': PATH})
        if done.returncode != 0:
            raise WikiError(f'mariadb-install-db failed; see {self.folder}/install.log')
        shutil.copytree(self.folder / 'primary/data', self.folder / 'replica/data', dirs_exist_ok=True)

    def _port(self, name):
        return int((self.folder / name / 'port').read_text())

    def _pid(self, name):
        """None when it does not run: another program may have got its number."""
        try:
            pid = int((self.folder / name / 'pid').read_text())
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
        except (OSError, ValueError):
            return None
        return pid if f'{self.folder}/{name}/'.encode() in command else None

    def _start(self, name, number):
        if self._pid(name) is not None:
            return
        own = self.folder / name
        (own / 'port').write_text(str(free_port()))
        with open(own / 'log', 'ab') as log:
            process = subprocess.Popen(
                [shutil.which('mariadbd', path=PATH), '--no-defaults', *(['--user=root'] if os.geteuid() == 0 else []),
                 f'--datadir={own}/data', f'--socket={own}/socket', f'--pid-file={own}/pid', f'--port={self._port(name)}',
                 f'--server-id={number}', f'--log-bin={own}/data/bin', *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=own, start_new_session=True)
        until = time.monotonic() + START_TIMEOUT
        while True:
            with contextlib.suppress(WikiError):
                self._sql(name, 'SELECT 1')
                return
            if process.poll() is not None or time.monotonic() > until:
                raise WikiError(f'the {name} did not start; see {own}/log')
            time.sleep(0.05)

    def _sql(self, name, text):
        done = subprocess.run(['mariadb', '--no-defaults', '-uroot', f'--socket={self.folder}/{name}/socket', '-BNe', text],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, 'PATH': PATH}, check=False)
        if done.returncode != 0:
            raise WikiError(f'{name}: {done.stderr.strip()}')
        return done.stdout
