"""Goal: an operator sees what rules have to do, why that does not happen, and what rules would do; and steers them: by routes
and by verbs of the command line, with the rights that operators have.
Method: the real binary on both sides, a sink that keeps a ledger and answers as the scene says, restarts, SIGHUP."""
import json
import pathlib
import re
import subprocess
import tempfile
import threading

from change_help import figure, tell_events
from cli import Client
from harness import Server, check, eq, free_port, main, scene, wait_until
from reload_help import Reloaded
from sink_help import Sink

RULES = """domains: {{ localhost: {{}}, a.test: {{}} }}
change:
  rules:
    {rules}
"""
CALLS = {'pause': {'rule': 'r'}, 'resume': {'rule': 'r'}, 'limit': {'rule': 'r', 'concurrency': 2}, 'replay': {'rule': 'r', 'from': '1h'},
         'drain': {'target': 'h:1'}, 'retry': {'rule': 'r'}, 'drop': {'rule': 'r'}}
LOOKS = {'items': {'rule': 'r'}, 'lanes': {'rule': 'r'}, 'item': {'rule': 'r', 'id': '1'}, 'explain': {'id': 'x'}, 'dry': {}}


def rules(*each):
    return RULES.format(rules='\n    '.join(each))


def hook(sink, more='', name='hook', match='{ stream: t }'):
    url = sink if isinstance(sink, str) else sink.url
    more += '' if 'retries: 0' in more else ', backoff: 1h'
    return f'{name}: {{ match: {match}, effect: http, url: "{url}/{{title}}", concurrency: 4{more} }}'


def event(title, n=0, stream='t', domain='localhost', **more):
    return {'meta': {'stream': stream, 'domain': domain, 'id': f'{stream}-{title}-{n}'}, 'page_title': title, 'n': n, **more}


def rule(client, name='hook'):
    return next((one for one in client.json('change', 'ls') if one['name'] == name), None)


def comes_to(client, name='hook', **figures):
    def is_so():
        one = rule(client, name)
        return one is not None and all(one[key] == value for key, value in figures.items()) and one
    return wait_until(is_so, f'{figures}: {rule(client, name)}')


def fails(client, *args, code, says=''):
    done = client(*args)
    eq(done.returncode, code, f'{args}: {done.stderr!r}')
    check(says in done.stderr.decode(), f'{args}: {done.stderr!r}')


@scene
def a_pause_holds_over_a_restart_and_loses_nothing(binary):
    with Sink() as sink, Reloaded(binary, rules(hook(sink), 'known: { match: { stream: u }, effect: drop }')) as r:
        client = Client(binary, r.server)
        eq(client.ok('change', 'pause', 'hook'), 'hook is paused; what runs comes to its end\n')
        tell_events(r.server, event('A', 0), event('A', 1), event('B', 2))
        one = comes_to(client, ready=2, waiting=1)
        eq((one['paused'], one['running'], one['effect'], one['limit']), (True, 0, 'http', {'concurrency': 4, 'rate': None, 'types': {}}))
        check(one['position'] is not None and one['oldest_s'] >= 0, one)
        head, line, *_ = client.ok('change', 'ls').splitlines()
        eq(head.split(), 'RULE EFFECT STATE RUNNING READY WAITING SCHEDULED DEAD OLDEST LAST ERROR'.split())
        eq(line.split()[:8], ['hook', 'http', 'paused', '0/4', '2', '1', '0', '0'])
        items = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'hook', 'state': 'ready'}).body['items']
        eq([(i['title'], i['state'], i['why']) for i in items], [(t, 'ready', 'its rule is paused') for t in 'AB'])
        r.server.restart()
        client = Client(binary, r.server)
        eq((rule(client)['paused'], sink.requests), (True, []))
        eq(client.ok('change', 'resume', 'hook'), 'hook goes on\n')
        eq(sorted(sink.wait(3)), ['/A', '/A', '/B'])
        eq(comes_to(client, done=3, ready=0)['paused'], False)
        eq([one['name'] for one in client.json('change', 'ls')], ['hook', 'known'])
        for verb in ('pause', 'resume', 'show', 'retry'):
            fails(client, 'change', verb, 'nope', code=5, says='no rule')
        fails(client, 'change', 'replay', 'nope', '--from', '1h', code=5, says='no rule')
        fails(client, 'change', 'limit', 'nope', '--rate', '1/s', code=5, says='no rule')
        fails(client, 'change', 'drop', 'nope', '--yes', code=5, says='no rule')


@scene
def what_is_dead_is_seen_tried_again_or_dropped(binary):
    broken = [True]
    with Sink(lambda q: (500, {}) if broken[0] and q['path'] != '/fine' else None) as sink, \
            Reloaded(binary, rules(hook(sink, ', retries: 0'), hook(sink, ', retries: 3', 'again', '{ stream: u }'))) as r:
        client = Client(binary, r.server)
        tell_events(r.server, event('A'), event('B'), event('C'), event('fine'), event('D', stream='u'))
        one = comes_to(client, dead=3, died=3, done=1)
        eq((one['died'], one['failures'] >= 3), (3, True))
        check('500' in one['last_error'] and one['last_error_at'] is not None, one)
        said = client.ok('change', 'show', 'hook')
        check('dead           3\n' in said and sink.url[7:] in said, said)
        shown, = client.json('change', 'show', 'hook')
        eq([target['name'] for target in shown['targets']], [sink.url[7:]])
        scheduled = comes_to(client, 'again', scheduled=1)
        eq(scheduled['dead'], 0)
        for what, count in (('items{rule="hook",state="dead"}', 3), ('items{rule="hook",state="ready"}', 0), ('paused{rule="hook"}', 0),
                            ('items{rule="again",state="scheduled"}', 1), ('outcomes_total{rule="hook",outcome="died"}', 3),
                            ('outcomes_total{rule="hook",outcome="done"}', 1), ('events_total{rule="hook",what="matched"}', 4)):
            eq(figure(r.server, f'rule_{what}'), count, what)
        eq(figure(r.server, 'router_behind_events'), 0)
        eq(figure(r.server, 'rules_untold'), 0)
        check(figure(r.server, f'target_failures_total{{target="{sink.url[7:]}"}}') >= 4, 'failures')
        listed = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'hook', 'state': 'dead', 'limit': 2}).body
        more = r.server.json('POST', '/v1/admin.change.items',
                             body={'rule': 'hook', 'state': 'dead', 'limit': 2, 'pivot': listed['next'], 'bytes': True}).body
        eq(([i['title'] for i in listed['items']], [i['title'] for i in more['items']], 'next' in more), (['A', 'B'], ['C'], False))
        eq((json.loads(more['items'][0]['event']), 'event' in listed['items'][0]), (event('C'), False))
        check('500' in listed['items'][0]['error'] and 'change retry' in listed['items'][0]['why'], listed)
        first, second = (i['id'] for i in listed['items'])
        found = r.server.json('POST', '/v1/admin.change.item', body={'rule': 'hook', 'id': first}).body
        eq((found['title'], json.loads(found['event'])), ('A', event('A')))
        fails(client, 'change', 'drop', 'hook', first, code=2, says='--yes')
        eq(client.ok('change', 'drop', 'hook', first, '--yes'), '1 item dropped\n')
        for verb in (('drop', '--yes'), ('retry',)):
            fails(client, 'change', verb[0], 'hook', first, *verb[1:], code=5, says='no such item')
            fails(client, 'change', verb[0], 'hook', 'x', *verb[1:], code=2, says='number')
        fails(client, 'change', 'drop', 'hook', '--state', 'rotten', '--yes', code=6, says='ready, waiting, scheduled or dead')
        broken[0] = False
        before = len(sink.requests)
        eq(client.ok('change', 'retry', 'hook', second), '1 item ready again\n')
        eq(sink.wait(before + 1)[before:], ['/B'])
        comes_to(client, dead=1)
        eq(client.ok('change', 'drop', 'hook', '--state', 'dead', '--yes'), '1 item dropped\n')
        eq(client.ok('change', 'retry', 'again'), '1 item ready again\n')
        comes_to(client, 'again', scheduled=0, done=1)
        comes_to(client, dead=0)
        eq(sorted(sink.paths()[before:]), ['/B', '/D'])


@scene
def items_are_listed_and_say_why(binary):
    job = 'jobs: {{ match: {{ stream: "mediawiki.job.*" }}, effect: job, targets: ["{}/run"], concurrency: 4 }}'
    known = 'known: { match: { stream: t }, effect: drop }'
    with Sink(lambda q: (500, {}) if q['path'] != '/D' else None) as sink, \
            Reloaded(binary, rules(hook(sink, ', retries: 0'), hook(sink, ', retries: 1', 'again'), job.format(sink.url), known)) as r:
        client = Client(binary, r.server)
        client.ok('change', 'pause', 'jobs')
        tell_events(r.server, *(event(title) for title in 'ABCD'), event('J', stream='mediawiki.job.x', type='x'))
        comes_to(client, dead=3, done=1)
        comes_to(client, 'again', scheduled=3, done=1)
        comes_to(client, 'jobs', ready=1)
        head, *lines = client.ok('change', 'items', 'hook').splitlines()
        eq(head.split(), 'ID STATE ATTEMPTS AGE DUE DOMAIN WHAT TARGET ERROR WHY'.split())
        eq([[line.split()[i] for i in (1, 2, 4, 5, 6, 7)] for line in lines], [['dead', '1', '-', 'localhost', title, '-'] for title in 'ABC'])
        check(all('HTTP 500' in line and 'change retry' in line for line in lines), lines)
        line, = client.ok('change', 'items', 'jobs', '--type', 'x', '--domain', 'localhost').splitlines()[1:]
        check(' x J ' in line and line.endswith('its rule is paused'), line)
        eq(client.json('change', 'items', 'jobs', '--type', 'y'), [])
        eq(client.json('change', 'items', 'hook', '--state', 'ready'), [])
        listed = client.json('change', 'items', 'hook', '--state', 'dead')
        eq([one['title'] for one in listed], ['A', 'B', 'C'])
        few = client('change', 'items', 'hook', '--limit', '2', '--json')
        eq([json.loads(one)['title'] for one in few.stdout.decode().splitlines()], ['A', 'B'])
        check(b'there are more' in few.stderr, few)
        for verb in ('change', 'jobs'):
            other, said = client.json(verb, 'why', listed[0]['id'])
            eq((said['rule'], said['effect'], said['state'], json.loads(said['event'])), ('hook', 'http', 'dead', event('A')), verb)
            eq((other['rule'], other['state']), ('again', 'scheduled'), verb)
        said = client.json('change', 'why', 't-B-0')
        eq([(one['rule'], one['state']) for one in said], [('hook', 'dead'), ('again', 'scheduled'), ('known', None)])
        check('it is tried again in ' in said[1]['why'] and json.loads(said[1]['event']) == event('B'), said[1])
        text = client.ok('change', 'why', 't-D-0')
        eq(text.count('why            no item is left: it was done, ignored or dropped\n'), 2)
        eq(text.count('why            its effect is drop: nothing is done\n'), 1)
        lines = client.ok('change', 'explain', 't-A-0').splitlines()
        check(any(line.startswith('again: matches; item ') and 'tried again in ' in line and '; last error: HTTP 500' in line for line in lines), lines)
        eq([one['rule'] for one in client.json('jobs', 'why', 'mediawiki.job.x-J-0')], ['jobs'])
        fails(client, 'change', 'why', '7', code=5, says='no rule has an item 7: it is done, or was dropped')
        fails(client, 'change', 'why', 'nope', code=5, says='the event log has no such event')
        fails(client, 'change', 'items', 'nope', code=5, says='no rule')
        fails(client, 'change', 'items', 'hook', '--state', 'bad', code=6, says='ready, waiting, scheduled or dead')
        fails(client, 'change', 'items', 'hook', '--limit', '0', code=2)


@scene
def the_table_in_the_documentation_is_what_is_printed(binary):
    lines = (pathlib.Path(__file__).parents[2] / 'docs/wikis.md').read_text().splitlines()
    at = lines.index('    $ palimpsest change ls')
    head, _, line = (one.strip() for one in lines[at + 1:at + 4])
    said = line[line.index('HTTP'):line.index(' (')]
    check(line.endswith(' ago)'), line)
    body = said.partition(': ')[2].encode() + b'\nmore\n'
    job = 'jobs: {{ match: {{ stream: "mediawiki.job.*" }}, effect: job, targets: ["{}/run"], concurrency: 4, retries: 0 }}'
    with Sink(lambda q: (500, {}, body)) as sink, Reloaded(binary, rules(job.format(sink.url))) as r:
        client = Client(binary, r.server)
        tell_events(r.server, event('A', stream='mediawiki.job.x'))
        eq(comes_to(client, 'jobs', dead=1)['last_error'], said)
        shown_head, shown = client.ok('change', 'ls').splitlines()
        ago = re.search(r' \([0-9.]+m?s ago\)$', shown)
        check(ago, shown)
        eq((shown_head.split(), shown.split()[:3], shown[:ago.start()].split()[9:]), (head.split(), line.split()[:3], said.split()))


@scene
def limits_change_while_it_runs(binary):
    gate = threading.Event()
    with Sink(lambda q: gate.wait(60) and None) as sink, Reloaded(binary, rules(hook(sink))) as r:
        client = Client(binary, r.server)
        eq(client.ok('change', 'limit', 'hook', '--concurrency', '1', '--rate', '1000/s'),
           'hook has other limits until the server starts again\n')
        tell_events(r.server, *(event(f'T{n}') for n in range(12)))
        one = comes_to(client, running=1)
        eq((one['override'], one['limit']), (True, {'concurrency': 1, 'rate': '1000/s', 'types': {}}))
        items = r.server.json('POST', '/v1/admin.change.items', body={'rule': 'hook'}).body['items']
        eq(sum(i['running'] for i in items), 1)
        eq(client.ok('change', 'ls').splitlines()[1].split()[3:5], ['1/1', str(one['ready'] - 1)], 'what runs is not ready as well')
        check(any('as many of its rule run as may' in str(i['why']) for i in items), items)
        client.ok('change', 'limit', 'hook', '--concurrency', '6')
        eq(comes_to(client, running=6)['limit']['rate'], '1000/s', 'what is not given stays')
        check('6 at once, 1000/s; by change limit' in client.ok('change', 'show', 'hook'), 'shown')
        r.reload(rules(hook(sink), 'known: { match: { stream: u }, effect: drop }'))
        eq(rule(client)['limit']['concurrency'], 6, 'over SIGHUP')
        client.ok('change', 'limit', 'hook', '--rate', 'none')
        eq(rule(client)['limit'], {'concurrency': 6, 'rate': None, 'types': {}})
        client.ok('change', 'limit', 'hook', '--reset')
        one = rule(client)
        eq((one['override'], one['limit']['concurrency']), (False, 4))
        gate.set()
        comes_to(client, done=12)
        for args in ((), ('--reset', '--rate', '1/s'), ('--concurrency', '0'), ('--concurrency', 'x')):
            fails(client, 'change', 'limit', 'hook', *args, code=2)
        for rate in ('', '0/s', '1/d', '1000001/s'):
            fails(client, 'change', 'limit', 'hook', '--rate', rate, code=6, says='10/s, 10/m, 10/h or none')


@scene
def a_replay_asks_again_from_an_instant(binary):
    with Sink() as sink, Reloaded(binary, rules(hook(sink)), test_hooks=True) as r:
        client = Client(binary, r.server)
        tell_events(r.server, event('old', 0))
        now = r.server.clock(advance='2h')
        tell_events(r.server, event('A', 1), event('B', 2), event('X', 3, stream='other'))
        sink.wait(3)
        comes_to(client, done=3)
        for since in ('1h', now):
            before = len(sink.requests)
            eq(client.ok('change', 'replay', 'hook', '--from', since), 'hook is asked again about what was taken since\n')
            eq(sorted(sink.wait(before + 2)[before:]), ['/A', '/B'])
            comes_to(client, replaying=False, ready=0)
        fails(client, 'change', 'replay', 'hook', code=2, says='--from')
        fails(client, 'change', 'replay', 'hook', '--from', 'yesterday', code=6, says='an instant')
        fails(client, 'change', 'replay', 'hook', '--from', '2200-01-01T00:00:00Z', code=6, says='that instant is still to come')


@scene
def explain_says_what_each_rule_says(binary):
    away = f'http://127.0.0.1:{free_port()}'
    with Reloaded(binary, rules(hook(away, ', retries: 0'), hook(away, '', 'other', '{ stream: u }'))) as r:
        client = Client(binary, r.server)
        tell_events(r.server, event('A'), event('B', stream='v'))
        comes_to(client, ready=1)
        tail = subprocess.Popen([binary, 'change', 'tail', '--json', '--since', '1h'], stdout=subprocess.PIPE, env=client.env, text=True)
        with tail:
            position = json.loads(tail.stdout.readline())['position']
            tail.terminate()
        for args in ((position,), ('t-A-0',), ('t-A-0', '--stream', 't')):
            said, = client.json('change', 'explain', *args)
            eq((said['position'], said['stream'], said['routed'], json.loads(said['event'])), (position, 't', True, event('A')), args)
            eq([(one['rule'], one['matches']) for one in said['rules']], [('hook', True), ('other', False)])
            eq((said['rules'][0]['item']['state'], said['rules'][1]['item']), ('ready', None))
            check('stream is "t", not "u"' in said['rules'][1]['why'], said['rules'][1])
        lines = client.ok('change', 'explain', 't-A-0').splitlines()
        check(any(line.startswith('hook: matches; item ') for line in lines), lines)
        check(any(line.startswith('other: does not match: ') and 'stream is' in line for line in lines), lines)
        fails(client, 'change', 'explain', 't-A-0', '--stream', 'u', code=5, says='does not have')
        fails(client, 'change', 'explain', 'nope', code=5, says='does not have')
        log, seq, instant = position.split('-')
        fails(client, 'change', 'explain', f'{log}-{int(seq) + 10**9}-{instant}', code=5, says='does not have')
        fails(client, 'change', 'explain', f'{"0" * 16}-{seq}-{instant}', code=6, says='another server')


@scene
def explain_says_what_became_of_a_collapsed_event(binary):
    edge = 'edge: {{ match: {{ stream: t }}, effect: purge, targets: ["{}"], urls: ["/{{title}}"], rebound: 0s }}'
    with Sink() as sink, Reloaded(binary, rules(edge.format(sink.url))) as r:
        client = Client(binary, r.server)
        client.ok('change', 'pause', 'edge')
        tell_events(r.server, event('A', 0), event('A', 1))
        comes_to(client, 'edge', ready=1, collapsed=1)
        first, second = (client.json('change', 'explain', f't-A-{n}')[0] for n in (0, 1))
        one, other = first['rules'][0], second['rules'][0]
        eq((one['collapsed_into'].split('-')[1], other['collapsed_into']), (second['position'].split('-')[1], None))
        eq((one['item']['id'], one['item']['why']), (other['item']['id'], 'its rule is paused'))
        check(f'; collapsed into {one["collapsed_into"]}; item ' in client.ok('change', 'explain', 't-A-0'), one)
        client.ok('change', 'resume', 'edge')
        eq(sink.wait(1), ['/A'])
        comes_to(client, 'edge', ready=0, done=1)
        eq([client.json('change', 'explain', f't-A-{n}')[0]['rules'][0]['item'] for n in (0, 1)], [None, None])


@scene
def a_dry_run_says_what_rules_would_have_done(binary):
    with Reloaded(binary, rules('known: { match: { stream: t }, effect: drop }')) as r:
        client = Client(binary, r.server)
        tell_events(r.server, *(event(f'T{n}', n, stream='t' if n % 3 else 'u') for n in range(30)))
        text = 'rules: { all: { match: { stream: "*" }, effect: drop }, u: { match: { stream: u }, effect: look }, ' \
               'none: { match: { stream: x }, effect: drop } }'
        (client.folder / 'r').write_text(text)
        doc, = client.json('change', 'dry', 'r')
        eq((doc['looked'], [(one['rule'], one['effect'], one['matched']) for one in doc['rules']]),
           (30, [('all', 'drop', 30), ('u', 'look', 10), ('none', 'drop', 0)]))
        eq(doc['rules'][2]['example'], None)
        said, = client.json('change', 'explain', doc['rules'][1]['example'])
        eq(json.loads(said['event'])['n'], 27, 'the newest')
        doc, = client.json('change', 'dry', '-', '--last', '6', stdin=text.encode())
        eq((doc['looked'], [one['matched'] for one in doc['rules']]), (6, [6, 2, 0]))
        lines = client.ok('change', 'dry', 'r').splitlines()
        eq((lines[0].split()[:3], lines[1].split()[:3], lines[-1]), (['RULE', 'EFFECT', 'MATCHED'], ['all', 'drop', '30'], 'of 30 events'))
        eq([one['matched'] for one in r.server.json('POST', '/v1/admin.change.dry', body={}).body['rules']], [20], 'those in force')
        eq([one['matched'] for one in client.json('change', 'dry')[0]['rules']], [20], 'so asks the verb without a file')
        bad = 'rules:\n  a: { match: { stream: t }, effect: dro }\n  b: { effect: drop }\n'
        (client.folder / 'bad').write_text(bad)
        fails(client, 'change', 'dry', 'bad', code=2, says='bad:2: a: effect "dro"')
        answer = r.server.json('POST', '/v1/admin.change.dry', body={'rules': bad})
        lines = answer.body['message'].split('\n')
        eq((answer.status, [line[:9] for line in lines]), (400, ['line 2: a', 'line 3: b']), lines)
        fails(client, 'change', 'dry', 'none', code=1, says='cannot read')
        fails(client, 'change', 'dry', 'r', '--last', '100001', code=2)
        tell_events(r.server, {'meta': {'stream': 'u', 'id': 'none'}})
        doc, = client.json('change', 'dry', 'r', '--last', '1')
        eq([(one['matched'], one['untitled']) for one in doc['rules']], [(1, 0), (1, 1), (0, 0)])
        check('\nu: 1 of them has no title: nothing is looked at\n' in client.ok('change', 'dry', 'r', '--last', '1'), 'so is told')


@scene
def a_rule_that_is_gone_is_forgotten_with_its_items(binary):
    with Reloaded(binary, rules(hook(f'http://127.0.0.1:{free_port()}'))) as r:
        client = Client(binary, r.server)
        tell_events(r.server, event('A'), event('B'))
        comes_to(client, ready=2)
        r.reload(rules('known: { match: { stream: u }, effect: drop }'))
        eq((comes_to(client, removed=True)['ready'], client.ok('change', 'ls').split('\n')[1].split()[1:3]), (2, ['-', 'removed']))
        fails(client, 'change', 'replay', 'hook', '--from', '1h', code=6, says="'hook' is not in the configuration any more")
        eq(client.ok('change', 'drop', 'hook', '--yes'), '2 items dropped\n')
        wait_until(lambda: rule(client) is None, 'it is forgotten')


@scene
def bodies_are_checked(binary):
    with Server(binary) as server:
        for name, body in {**CALLS, **LOOKS}.items():
            path = f'/v1/admin.change.{name}'
            for wrong in (b'', b'{', b'[]', b'7', json.dumps({**body, 'x': 1}).encode(),
                          *(json.dumps({k: v for k, v in body.items() if k != left}).encode() for left in ('rule', 'target') if left in body),
                          json.dumps({**body, ('target' if 'target' in body else 'rule'): 7}).encode()):
                got = server.json('POST', path, {'Content-Type': 'application/json'}, wrong)
                eq(got.status, 400, (name, wrong, got.body))
            eq(server.request('GET', path).status, 405, name)
        for name, wrong in (('limit', {'concurrency': 0}), ('limit', {'concurrency': 1.5}), ('limit', {'rate': 5}), ('limit', {'rate': '5/x'}),
                            ('limit', {'type': 'x', 'rate': '5/s'}), ('replay', {'from': 5}), ('items', {'limit': 0}), ('items', {'limit': 1001}),
                            ('items', {'state': 'x'}), ('items', {'pivot': '-1'}), ('items', {'pivot': 'x'}), ('items', {'bytes': 1}),
                            ('item', {'id': 0}), ('item', {'id': '0x1'}), ('retry', {'id': []}), ('drop', {'state': 1})):
            got = server.json('POST', f'/v1/admin.change.{name}', body={**{**CALLS, **LOOKS}[name], **wrong})
            eq(got.status, 400, (name, wrong, got.body))
        for wrong in ({}, {'position': 'x'}, {'position': 7}, {'id': ''}, {'id': 7}):
            eq(server.json('POST', '/v1/admin.change.explain', body=wrong).status, 400, wrong)
        for wrong in ({'last': 0}, {'last': 100001}, {'rules': 7}):
            eq(server.json('POST', '/v1/admin.change.dry', body=wrong).status, 400, wrong)
        for name, body in CALLS.items():
            eq(server.json('POST', f'/v1/admin.change.{name}', body=body).status, 404, name)


@scene
def rights_are_the_operators(binary):
    with tempfile.TemporaryDirectory() as data:
        keys = {role: subprocess.run([binary, 'token', 'create', '--role', role, '--data', f'{data}/d', '--new'], check=True,
                                     capture_output=True, text=True, timeout=60).stdout.strip()
                for role in ('read', 'write', 'purge', 'admin')}
        subprocess.run([binary, 'token', 'lock', '--data', f'{data}/d'], check=True, timeout=60, capture_output=True)
        with Server(binary, '--set', 'auth=internal', data=f'{data}/d') as server:
            client = Client(binary, server)
            for name, body in {**CALLS, **LOOKS}.items():
                eq(server.json('POST', f'/v1/admin.change.{name}', body=body).status, 401, name)
                for role, key in keys.items():
                    status = server.json('POST', f'/v1/admin.change.{name}', {'Authorization': f'Bearer {key}'}, body).status
                    eq(status in (200, 404) if role == 'admin' else status == 403, True, (name, role, status))
            for args in (('change', 'ls'), ('change', 'pause', 'r'), ('jobs', 'ls'), ('change', 'explain', 'x')):
                fails(client, *args, code=6, says='401')
                fails(client, *args, '--token', keys['write'], code=6, says='403')
            eq(client.ok('change', 'ls', '--token', keys['admin']).splitlines()[0][:4], 'RULE')


@scene
def a_start_with_rules_that_fails_says_why(binary):
    with Server(binary) as server, tempfile.TemporaryDirectory(prefix='admin-') as folder:
        with open(f'{folder}/c.yaml', 'w', encoding='utf-8') as file:
            file.write(rules(hook('http://127.0.0.1:1')))
        taken = server.url.rpartition('/')[2]
        for _ in range(3):
            other = subprocess.run([server.binary, 'serve', '--config', f'{folder}/c.yaml', '--data', f'{folder}/d', '--listen', taken],
                                   capture_output=True, text=True, timeout=60, check=False)
            eq((other.returncode, other.stdout), (1, ''), other.stderr)
            check('Address already in use' in other.stderr, other.stderr)


main()
