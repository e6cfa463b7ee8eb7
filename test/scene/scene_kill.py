"""Goal: kill -9 at any instant loses nothing that was acknowledged, bytes and headers, shows nothing half written,
serves nothing past its due time, and leaves a store that passes its check.
Method: writers over HTTP, SIGKILL at a random moment, a start on the same data, everything acknowledged asked for
again; a long and a short grace window in turn, so that culls are cut down too. KILL_CYCLES (10) is how often; SEED
repeats a run. The long form is SCENE_TIMEOUT=7200 KILL_CYCLES=2000."""
import datetime
import http.client
import json
import os
import random
import subprocess
import threading
import time

from harness import REQUEST_TIMEOUT, Server, check, eq, main, scene
from page_help import path

CYCLES = int(os.environ.get('KILL_CYCLES', '10'))
SEED = int(os.environ.get('SEED', str(random.randrange(2**32))))
WRITERS, TITLES_EACH, ASKED_MAX = 4, 3, 200
CLOCK_SLACK_S = 1       # the clock of the store is slewed to the wall's


def body_of(title, rev):
    """Small ones lie in the index, large ones in the log, some compress and some do not."""
    rng = random.Random(f'{title}/{rev}')
    noise = rng.randbytes(rng.choice((10, 300, 3000, 20000)))
    return noise if rev % 2 else (f'{title} {rev} '.encode() + noise.hex().encode())


def type_of(rev):
    return f'text/html; charset=utf-8; r="{rev}"'


class Writer(threading.Thread):
    """Puts revision after revision until the server is gone. Acknowledged: (title, rev) -> tid."""

    def __init__(self, number, port, last):
        super().__init__()
        self.number, self.port, self.last, self.acknowledged, self.refused = number, port, last, {}, []

    def run(self):
        rng = random.Random(SEED + self.number)
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=REQUEST_TIMEOUT)
        try:
            while True:
                title = f'K{self.number}-{rng.randrange(TITLES_EACH)}'
                rev = self.last.get(title, 0) + 1
                self.last[title] = rev       # sent: it may be there, acknowledged or not
                connection.request('PUT', path('html', title, rev), body_of(title, rev), {'Content-Type': type_of(rev)})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 201:
                    self.refused.append((title, rev, answer.status, text))
                    return
                self.acknowledged[title, rev] = json.loads(text)['tid']
        except (OSError, http.client.HTTPException):
            pass                             # killed


def is_whole(server, title, rev, tid):
    got = server.request('GET', path('html', title, rev))
    eq(got.status, 200, f'{title} {rev}: {got.body[:200]}')
    eq(got.headers['ETag'], f'"{rev}/{tid}"')
    eq(got.headers['Content-Type'], type_of(rev))
    check(got.body == body_of(title, rev), f'{title} {rev}: other bytes than were put')


def latest_is_right(server, title, last_acknowledged, last_sent):
    got = server.request('GET', path('html', title))
    if last_acknowledged == 0 and got.status == 404:
        return
    eq(got.status, 200, f'{title}: {got.body[:200]}')
    rev = int(got.headers['ETag'].strip('"').split('/')[0])
    check(last_acknowledged <= rev <= last_sent, f'{title}: {rev} is served, {last_acknowledged} was acknowledged')
    eq(got.headers['Content-Type'], type_of(rev))
    check(got.body == body_of(title, rev), f'{title} {rev}: other bytes than were put')


def nothing_is_overdue(server, title):
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=CLOCK_SLACK_S)
    got = server.request('GET', path('history', title))
    if got.status != 200:
        return
    for item in json.loads(got.body)['items']:
        due = item['due_at']
        check(due is None or datetime.datetime.fromisoformat(due.replace('Z', '+00:00')) > before,
              f'{title} {item["rev"]} was due at {due} and is listed')


def check_store(binary, data):
    done = subprocess.run([binary, 'check', '--data', str(data)], capture_output=True, text=True, timeout=120, check=False)
    eq(done.returncode, 0, f'check: {done.stdout} {done.stderr}')


@scene
def nothing_acknowledged_is_lost_by_kill_9(binary):
    print(f'seed {SEED}, {CYCLES} cycles')
    rng = random.Random(SEED)
    last, newest, total = {}, {}, 0
    with Server(binary, '--set', 'page.grace_ttl=1h') as server:
        for cycle in range(CYCLES):
            writers = [Writer(n, server.port, last) for n in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(rng.uniform(0.005, 0.4))          # the moment of the kill, not a wait
            eq(server.kill9(), -9)
            for writer in writers:
                writer.join()
                eq(writer.refused, [], 'refused')
            acknowledged = {key: tid for writer in writers for key, tid in writer.acknowledged.items()}
            total += len(acknowledged)
            for title, rev in acknowledged:
                newest[title] = max(rev, newest.get(title, 0))
            if cycle % 4 == 3:
                check_store(binary, server.data)
            server.start('--set', 'page.grace_ttl=1h')
            for title, sent in last.items():
                latest_is_right(server, title, newest.get(title, 0), sent)
                nothing_is_overdue(server, title)
            for key in rng.sample(sorted(acknowledged), min(ASKED_MAX, len(acknowledged))):
                is_whole(server, *key, acknowledged[key])
            eq(server.kill9(), -9)                       # and while what was read is extended
            server.start('--set', 'page.grace_ttl=10ms')
            for title in last:
                nothing_is_overdue(server, title)
            eq(server.kill9(), -9)
            server.start('--set', 'page.grace_ttl=1h')
        data = server.data
        eq(server.sigterm(), 0)
        check_store(binary, data)
        check(total > 0, 'something was acknowledged')
        print(f'{total} acknowledged, none lost')


main()
