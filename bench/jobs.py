#!/usr/bin/env python3
"""jobs.py - the jobs of a real wiki: its own queue in its database, with runJobs.php, beside EventBus and a rule of effect job; prints
Markdown.

    bench/jobs.py --build DIR --eventbus DIR [--version 1.43] [--count N] [--procs N] [--rounds N]

DIR of --build is a release build (meson setup DIR --buildtype=release). The extension EventBus is a checkout of the branch that fits
the MediaWiki of --version. script/deps wiki and script/deps lag have the rest.

The wiki stands on MariaDB, which has what is committed on disk. Jobs are of MediaWiki's type `null`, which does nothing: what is told
is the cost of a job itself. A process of the wiki pushes them, 100 at a time, as a page's update does. Then they are run:

    database   by runJobs.php, as --procs processes, each of which runs one job behind the other
    rule       by the wiki's php-fpm, --procs requests at once: EventBus has an entry point for one job
    sink       by a server that answers 200 at once: what is left is this server's own

Each starts when all were pushed. A row is the median of rounds, a ratio the median of those of one round."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tools/wiki'), str(ROOT / 'test/e2e'), str(ROOT / 'test/scene'), str(ROOT / 'bench')]
sys.dont_write_bytecode = True
from change import Sink                            # noqa: E402  pylint: disable=wrong-import-position
from mariadb import MariaDB                        # noqa: E402  pylint: disable=wrong-import-position
from procs import Proc, free_port                  # noqa: E402  pylint: disable=wrong-import-position
from wiki import DOMAIN, ORIGIN_DOMAIN, Wiki       # noqa: E402  pylint: disable=wrong-import-position

BATCH, DEADLINE_S = 100, 900
RUNNER = '/w/rest.php/eventbus/v0/internal/job/execute'


class Rig:
    """The wiki, on a database of its own; push() gives its queue jobs."""

    def __init__(self, args, folder):
        self.args, self.dir = args, folder
        self.wiki = Wiki(folder / 'wiki', MariaDB(folder / 'db', durable=True), args.version).up()
        self.wiki.database.delay(3600)             # its copy is not what is measured
        self.maintenance('runJobs.php')            # one process fills the caches that several would fill at once
        (self.wiki / 'jobs').mkdir(exist_ok=True)
        self.setting = self.wiki / 'settings.d/jobs.php'

    def use(self, port=None):
        """Jobs go to the database, or by EventBus to the server on that port."""
        from jobs_help import SETTINGS             # pylint: disable=import-outside-toplevel
        if port is None:
            self.setting.unlink(missing_ok=True)
            return
        self.setting.write_text(SETTINGS.replace('@EXTENSION@', str(pathlib.Path(self.args.eventbus).resolve()))
                                .replace('@RELAY@', f'http://127.0.0.1:{port}/v1/events'))

    def maintenance(self, *words):
        subprocess.run(['python3', '-B', ROOT / 'tools/wiki/wiki.py', 'maintenance', self.wiki.folder, *words], check=True,
                       stdout=subprocess.DEVNULL)

    def push(self, count):
        """Seconds that it took; those that a process needs to push nothing are taken off."""
        from jobs_help import PUSH                 # pylint: disable=import-outside-toplevel
        script, listed = self.dir / 'push.php', self.dir / 'push.json'
        script.write_text(PUSH.replace('@CODE@', str(self.wiki.mediawiki.code)).replace('@JOBS@', str(listed))
                          .replace('@BATCH@', str(BATCH)))
        took = []
        for jobs in (0, count):
            listed.write_text(json.dumps([['null', {'lives': 1, 'n': n}, None, {}] for n in range(jobs)]))
            began = time.monotonic()
            self.maintenance(script)
            took.append(time.monotonic() - began)
        return took[1] - took[0]


class Server(Proc):
    """Ours, with a rule that has this target run the wiki's jobs."""

    def __init__(self, rig, name, target):
        folder = pathlib.Path(tempfile.mkdtemp(dir=rig.dir))
        config = folder / 'palimpsest.yaml'
        origin = {'kind': 'parsoid', 'url': f'{rig.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN}
        rule = {'match': {'stream': 'mediawiki.job.*'}, 'effect': 'job', 'targets': [target], 'concurrency': rig.args.procs,
                'collapse': 'sha1'}
        config.write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}}, 'change': {'rules': {'jobs': rule}}}))
        super().__init__([os.path.join(rig.args.build, 'palimpsest'), 'serve', '--data', str(folder / 'data'), '--listen',
                          f'127.0.0.1:{free_port()}', '--config', str(config)], 'listening on ', stderr=str(folder / 'log'))
        self.name, self.port = name, int(self.url.rsplit(':', 1)[1])

    def call(self, verb, **body):
        done = subprocess.run(['curl', '-sf', f'http://127.0.0.1:{self.port}/v1/admin.change{verb}',
                               *(['-d', json.dumps(body), '-H', 'Content-Type: application/json'] if body else [])],
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    def rule(self):
        return next(one for one in self.call('')['rules'] if one['name'] == 'jobs')

    def wait_left(self, wanted):
        until = time.monotonic() + DEADLINE_S
        while True:
            rule = self.rule()
            if wanted(rule):
                return rule
            if time.monotonic() > until:
                raise SystemExit(f'{self.name}: {rule}')
            time.sleep(0.02)


def of_database(rig, count):
    rig.use()
    pushed = rig.push(count)
    began = time.monotonic()
    rig.maintenance('runJobs.php', '--type', 'null', '--procs', str(rig.args.procs), '--nothrottle')
    return pushed, time.monotonic() - began, None


def of_rule(rig, server, count):
    rig.use(server.port)
    server.call('.pause', rule='jobs')
    done = server.rule()['done']
    cpu = server.cpu_s()
    pushed = rig.push(count)
    server.wait_left(lambda rule: rule['ready'] + rule['waiting'] >= count)
    began = time.monotonic()
    server.call('.resume', rule='jobs')
    rule = server.wait_left(lambda rule: rule['done'] - done >= count)
    took = time.monotonic() - began
    if rule['died'] or rule['failures']:
        raise SystemExit(f'{server.name}: {rule}')
    return pushed, took, (server.cpu_s() - cpu) / count * 1e6


def measure(rig):
    sink = Sink(argparse.Namespace(dir=str(rig.dir)))
    servers = [Server(rig, 'rule', rig.wiki.base + RUNNER), Server(rig, 'sink', f'http://127.0.0.1:{sink.port}/run')]
    rows = {'database': [], 'rule': [], 'sink': []}
    try:
        for _ in range(rig.args.rounds):
            rows['database'].append(of_database(rig, rig.args.count))
            for server in servers:
                rows[server.name].append(of_rule(rig, server, rig.args.count))
    finally:
        for server in servers:
            server.end()
        sink.end()
    print(f'### {rig.args.count:,} jobs that do nothing, of MediaWiki {rig.args.version} on MariaDB, by {rig.args.procs} at once\n\n'
          '|  | pushed a second | ratio | run a second | ratio | processor time of this server, each |\n'
          '| --- | ---: | ---: | ---: | ---: | ---: |')
    for name, got in rows.items():
        cells = [name]
        for i in range(2):
            cells += [f'{rig.args.count / statistics.median(r[i] for r in got):,.0f}',
                      f"{statistics.median(base[i] / r[i] for base, r in zip(rows['database'], got)):.2f}x"]
        cpu = [r[2] for r in got if r[2] is not None]
        print('| ' + ' | '.join([*cells, f'{statistics.median(cpu):.0f} us' if cpu else '']) + ' |')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', required=True)
    p.add_argument('--eventbus', required=True)
    p.add_argument('--version', default='1.43')
    p.add_argument('--count', type=int, default=2000)
    p.add_argument('--procs', type=int, default=2)
    p.add_argument('--rounds', type=int, default=3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix='jobs-', dir='/var/tmp') as folder:
        rig = Rig(args, pathlib.Path(folder))
        try:
            measure(rig)
        finally:
            rig.wiki.down()


if __name__ == '__main__':
    main()
