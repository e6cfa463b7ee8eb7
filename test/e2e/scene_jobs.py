"""Goal: the jobs of a real wiki run through a server, and none is lost. MediaWiki's job queue is the extension EventBus, as it is; a
rule of the server posts each job back to the wiki.
Method: a real MediaWiki with the extension of the folder EVENTBUS_DIR (a checkout of its branch for this MediaWiki; without,
nothing is run), and ledgers on both sides (jobs_help.py). Run by itself:

    EVENTBUS_DIR=~/EventBus python3 test/e2e/scene_jobs.py build/palimpsest

JOBS (2000) is how many run while the server is killed."""
import collections
import os
import random
import sys
import threading
import time

from rig import scene
from harness import check, eq, main, wait_until
from jobs_help import EXTENSION, Jobs

JOBS = int(os.environ.get('JOBS', '2000'))
USERS = 6
SEED = int(os.environ.get('SEED', '1'))
ODD = {'text': '\u00dcn\u00ef \U0001f30d "quoted" \\ / </script> \u2028 & \t', 'number': 1.5, 'large': 2 ** 53, 'none': None, 'list': [], 'map': {'b': 1, 'a': {'0': 'x'}}}


def ledger(n, delay=None, title=None, once=False, **params):
    params = {'n': n, **params, **({} if delay is None else {'delay': delay})}
    return 'ledger', params, title, {'removeDuplicates': once}


def links_to(wiki, title):
    return [page['title'] for page in wiki.api(action='query', list='backlinks', bllimit='max', bltitle=title)['query']['backlinks']]


def touched(wiki, title):
    return wiki.api(action='query', prop='info', titles=title)['query']['pages'][0]['touched']


@scene
def edits_and_templates_have_their_jobs_run_by_the_server(binary):
    with Jobs(binary) as jobs:
        wiki, run = jobs.wiki, time.time_ns()
        template, users = f'Template:Jobs_{run}', [f'Jobs {run} {n}' for n in range(12)]
        wiki.edit(template, f'[[First {run}]]')
        for title in users:
            wiki.edit(title, '{{Jobs_%d}}' % run)
        jobs.rest()
        eq(sorted(links_to(wiki, f'First {run}')), sorted([template.replace('_', ' '), *users]))
        before = touched(wiki, users[0])
        wiki.edit(template, f'[[Second {run}]]')
        wait_until(lambda: len(links_to(wiki, f'Second {run}')) == 1 + len(users), 'refreshLinks ran for each page', timeout=60)
        wait_until(lambda: touched(wiki, users[0]) > before, 'htmlCacheUpdate ran')
        wiki.edit(users[0], 'another text [[Category:Jobs]]')
        jobs.rest()
        wait_until(lambda: not jobs.not_run(), 'each job that was taken ran', timeout=30)
        types = collections.Counter(job.type for job in jobs.relay.taken)
        print(dict(types), flush=True)
        check({'refreshLinks', 'htmlCacheUpdate'} <= set(types), types)
        eq([one for one in jobs.ran() if one.status != 200], [], 'all signatures hold')
        eq([post for post in jobs.relay.posts if post[0] != 201], [])


@scene
def odd_jobs_keep_their_signature(binary):
    with Jobs(binary) as jobs:
        jobs.push(ledger(1, **ODD), ledger(2, text='x' * 1_000_000), ledger(3, title='\u00dcn\u00ef/\u00e9 & "x"'), ledger(4, data=list(range(5000))))
        jobs.rest()
        eq((jobs.ledger(), [one for one in jobs.ran() if one.status != 200]), ({1: 1, 2: 1, 3: 1, 4: 1}, []))


@scene
def jobs_wait_for_their_time_and_collapse(binary):
    with Jobs(binary) as jobs:
        jobs.client.ok('change', 'pause', 'jobs')
        jobs.push(ledger(1, delay=20), ledger(2, delay=3600), ledger(3))
        due = time.time() + 20
        jobs.comes_to(scheduled=2)
        for _ in range(5):          # each in a call of its own: the extension itself drops equals of one
            jobs.push(ledger(4, once=True), ledger(5, once=True))
        page = jobs.wiki.titles()[0].replace('_', ' ')
        for _ in range(3):
            jobs.push(('refreshLinks', {'root': 'jobs of this scene'}, page, {'removeDuplicates': True}))
            second = time.time()
            wait_until(lambda second=second: time.time() > second + 1.1, 'another second: roots are told apart by it')
        eq(jobs.ledger(), {})
        jobs.client.ok('change', 'resume', 'jobs')
        jobs.comes_to(ready=0, running=0, scheduled=1)
        eq(jobs.ledger(), {1: 1, 3: 1, 4: 1, 5: 1})
        links = [one for one in jobs.ran() if one.type == 'refreshLinks']
        eq(([one.status for one in links], links[0].id), ([200], [job.id for job in jobs.relay.taken if job.type == 'refreshLinks'][-1]))
        late = next(one for one in jobs.ran() if one.type == 'ledger' and one.id == jobs.relay.taken[0].id)
        check(late.began >= due - 2, 'a delayed job waits')
        print(f'the delayed job ran {late.began - due:.1f} s behind its time, which is told in seconds', flush=True)
        item, = jobs.items()
        eq((item['type'], item['state'], item['attempts']), ('ledger', 'scheduled', 0))
        print(jobs.client.ok('jobs', 'why', item['id']), flush=True)


@scene
def a_read_only_wiki_costs_no_attempt(binary):
    with Jobs(binary, retries=0) as jobs:
        reason = jobs.wiki / 'settings.d/readonly.php'
        reason.write_text("<?php if ( MW_ENTRY_POINT === 'rest' ) { $wgReadOnly = 'This scene says so'; }")
        try:
            jobs.push(*(ledger(n) for n in range(8)))
            wait_until(lambda: len([one for one in jobs.ran() if one.status == 423]) >= 2, 'the wiki refused a job twice')
            eq({one['attempts'] for one in jobs.items()}, {0})
            rule = jobs.rule()
            eq((rule['ready'], rule['dead'], rule['failures']), (8, 0, 0))
            why = jobs.client.ok('jobs', 'why', jobs.items()[0]['id'])
            check('left alone' in why, why)
            target, = jobs.server.json('GET', '/v1/admin.change').body['targets']
            check('the wiki is read-only' in target['last_error'], target)
        finally:
            reason.unlink()
        jobs.rest()
        eq(jobs.ledger(), {n: 1 for n in range(8)})
        refused = [one for one in jobs.ran() if one.status == 423]
        check(len(refused) < 20, f'{len(refused)} probes')


@scene
def a_job_that_fails_is_tried_again_and_dies(binary):
    with Jobs(binary, retries=2) as jobs:
        jobs.push(ledger(1, fails='until told'), ledger(2, fails='once'), ledger(3), ('nobodyKnowsThis', {}, None, {}))
        jobs.comes_to(dead=2, ready=0, scheduled=0, running=0)
        eq(jobs.ledger(), {2: 1, 3: 1})
        statuses = collections.Counter((one.type, one.status) for one in jobs.ran())
        eq(statuses, {('ledger', 500): 4, ('ledger', 200): 2, ('nobodyKnowsThis', 400): 1})
        listed = {one['type']: one for one in jobs.client.json('jobs', 'ls')}
        eq({name: one['dead'] for name, one in listed.items()}, {'ledger': 1, 'nobodyKnowsThis': 1})
        print(jobs.client.ok('jobs', 'ls'), flush=True)
        dead = {one['type']: one for one in jobs.items(state='dead')}
        eq({name: one['attempts'] for name, one in dead.items()}, {'ledger': 3, 'nobodyKnowsThis': 1})
        why = jobs.client.ok('jobs', 'why', dead['ledger']['id'])
        check('500' in why, why)
        print(why, flush=True)
        (jobs.folder / 'told').touch()
        jobs.client.ok('jobs', 'retry', '--type', 'ledger')
        jobs.comes_to(dead=1, ready=0, scheduled=0, running=0)
        eq(jobs.ledger(), {1: 1, 2: 1, 3: 1})


def mixed(count, pages):
    """Jobs of many kinds; (numbers that have to be in the ledger, jobs)"""
    rng, jobs = random.Random(SEED), []
    for n in range(count):
        kind = rng.random()
        if kind < 0.06:
            jobs.append(('refreshLinks', {'root': f'refresh {n % 50}'}, rng.choice(pages), {'removeDuplicates': True}))
        elif kind < 0.10:
            jobs.append(('htmlCacheUpdate', {'causeAction': 'test'}, rng.choice(pages), {'removeDuplicates': True}))
        elif kind < 0.14:
            jobs.append(('null', {'lives': 1, 'n': n}, 'Main Page', {}))
        elif kind < 0.20:
            jobs.append(ledger(n % 300 + count, once=True))
        elif kind < 0.24:
            jobs.append(ledger(n, delay=rng.randrange(1, 20)))
        elif kind < 0.27:
            jobs.append(ledger(n, fails='once'))
        elif kind < 0.30:
            jobs.append(ledger(n, text='\u00fc' * 20_000))
        else:
            jobs.append(ledger(n, **ODD))
    return {job[1]['n'] for job in jobs if job[0] == 'ledger'}, jobs


class Editor(threading.Thread):
    """Edits templates and pages until it is told to end."""

    def __init__(self, wiki):
        super().__init__(daemon=True)
        self.wiki, self.run_id, self.over, self.edits, self.failed = wiki, time.time_ns(), threading.Event(), 0, []

    def run(self):
        users = [f'Killed {self.run_id} {n}' for n in range(USERS)]
        for n in range(1_000_000):
            if self.over.is_set():
                return
            try:
                if n % 10 == 0:
                    self.wiki.edit(f'Template:Killed_{self.run_id}', f'[[Now {self.run_id} {n}]]')
                    self.last = n
                else:
                    self.wiki.edit(users[n % USERS], '{{Killed_%d}} %d' % (self.run_id, n))
                self.edits += 1
            except Exception as error:      # pylint: disable=broad-except
                self.failed.append(error)
            self.over.wait(0.5)


@scene
def no_job_is_lost_when_the_server_is_killed(binary):
    with Jobs(binary, retries=3) as jobs:
        pages = [title.replace('_', ' ') for title in jobs.wiki.titles()]
        numbers, all_jobs = mixed(JOBS, pages)
        rng, kills, began = random.Random(SEED + 1), 0, time.monotonic()
        editor = Editor(jobs.wiki)
        editor.start()
        pushing = jobs.pushing(all_jobs)
        told = 0

        def at_work():
            rule = jobs.rule()
            return pushing.poll() is None or rule['lag'] > 0
        while at_work():
            ran, due = len(jobs.ran()), rng.randrange(1, 120)
            wait_until(lambda ran=ran, due=due: len(jobs.ran()) >= ran + due or not at_work(), 'some jobs run', timeout=120)
            jobs.server.kill9()
            jobs.server.start()
            kills += 1
            if time.monotonic() - began > told + 30:
                told = time.monotonic() - began
                print(f'{told:.0f} s: {kills} kills, {len(jobs.ran())} runs, {len(jobs.relay.taken)} taken, {jobs.rule()["lag"]} behind', flush=True)
            if not at_work() and not editor.over.is_set():
                editor.over.set()
        editor.over.set()
        editor.join()
        eq(pushing.wait(), 0, 'the wiki pushed all')
        rule = jobs.rest()
        took = time.monotonic() - began
        wait_until(lambda: not jobs.not_run(), 'what the last edit gave, and the wiki has written down', timeout=30, pause=0.5)
        eq((editor.failed, rule['dead']), ([], 0))
        ledger_of, ran = jobs.ledger(), jobs.ran()
        lost = sorted(numbers - set(ledger_of))
        eq(lost, [], 'lost')
        eq(set(ledger_of) - numbers, set(), 'made up')
        statuses = collections.Counter(one.status for one in ran)
        types = collections.Counter(job.type for job in jobs.relay.taken)
        again = len([one for one in ran if one.status == 200]) - len({one.id for one in ran if one.status == 200})
        print(f'{len(jobs.relay.taken)} jobs taken ({dict(types)}), {editor.edits} edits, {kills} kills in {took:.0f} s; runs {dict(statuses)}, '
              f'{again} well a second time', flush=True)
        slowest = sorted(post[1] for post in jobs.relay.posts)
        print(f'{len(slowest)} posts of events: longest {slowest[-1]:.1f} s, of which it was away, '
              f'99 of 100 within {slowest[len(slowest) * 99 // 100]:.3f} s', flush=True)
        wait_until(lambda: len(links_to(jobs.wiki, f'Now {editor.run_id} {editor.last}')) == 1 + min(editor.edits, USERS),
                   'the pages that use the last template link what it links', timeout=30)
        check(again <= kills * 4, 'no more twice than ran at a kill')


if not EXTENSION:
    print('left out: EVENTBUS_DIR names no folder with the extension EventBus')
    sys.exit(0)
main()
