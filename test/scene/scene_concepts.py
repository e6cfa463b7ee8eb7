"""The worked examples of docs/concepts.md, run: what each policy keeps of one page, what keeps a render longer, and the way of an
item into the dead queue. The table of policies is read from the document, so a wrong instant in it fails."""
import datetime
import pathlib
import re

from harness import Server, eq, main, scene

CONCEPTS = pathlib.Path(__file__).resolve().parents[2] / 'docs/concepts.md'
POLICIES = ('app_ttl', 'all', 'latest', 'interval', 'latest_hash', 'ttl')
PUTS = (('A', 1, '2026-03-01 10:00'), ('B', 1, '2026-03-02 10:00'), ('C', 1, '2026-03-02 16:00'), ('D', 2, '2026-03-03 10:00'))
MILLISECOND = datetime.timedelta(milliseconds=1)
NEVER = datetime.datetime.max


def at(text):
    return datetime.datetime.strptime(text, '%Y-%m-%d %H:%M')


def stop_clock(server, when):
    server.clock(freeze=when.strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3] + 'Z')


def policies_server(binary):
    """A bucket for each policy, of its name."""
    args = [arg for name in POLICIES for arg in ('--set', f'buckets.{name}.kind=page', '--set', f'buckets.{name}.policy={name}')]
    return Server(binary, *args, test_hooks='2026-03-01T00:00:00Z')


def put(server, policy, letter, rev):
    """Stores a render; returns its tid."""
    status, _, said = server.json('PUT', f'/localhost/v1/{policy}/html/Earth/{rev}', {'Content-Type': 'text/html'}, f'<p>{letter}')
    eq(status, 201, f'{policy} {letter}: {said}')
    return said['tid']


def put_all(server, policies=POLICIES):
    """The page of the document under each policy: {(policy, letter): (rev, tid)}."""
    renders = {}
    for letter, rev, when in PUTS:
        stop_clock(server, at(when))
        for policy in policies:
            renders[policy, letter] = rev, put(server, policy, letter, rev)
    return renders


def path_of(what, policy, render):
    return f'/localhost/v1/{policy}/{what}/Earth/{render[0]}/{render[1]}'


def is_gone(server, policy, render):
    """explain keeps nothing longer, as a read would."""
    status, _, said = server.json('GET', path_of('explain', policy, render))
    eq(status, 200, said)
    return said['state'] in ('culled', 'unknown')       # unknown: its trace is forgotten, too


def told():
    """{(policy, letter): instant from which on it is gone} as the table of the document says."""
    rows = re.findall(r'^\| `(\w+)`(?: \(default\))? \|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$', CONCEPTS.read_text(), re.M)
    eq(tuple(row[0] for row in rows), POLICIES, 'rows of the table')
    return {(row[0], letter): NEVER if cell.strip() == 'never' else at('2026-' + cell.strip())
            for row in rows for letter, cell in zip('ABCD', row[1:])}


def starts(server):
    """The puts, one after the other: (instant, policies' puts as a function)."""
    for letter, rev, when in PUTS:
        yield at(when), lambda letter=letter, rev=rev: {(policy, letter): (rev, put(server, policy, letter, rev)) for policy in POLICIES}


@scene
def each_policy_keeps_what_the_table_says(binary):
    gone_at, renders = told(), {}
    with policies_server(binary) as server:
        puts = dict(starts(server))
        instants = sorted({when for when in gone_at.values() if when != NEVER} | set(puts) | {at('2027-03-01 00:00')})
        for when in instants:
            for now in (when - MILLISECOND, when):
                stop_clock(server, now)
                if now in puts:
                    renders |= puts[now]()
                for (policy, letter), render in renders.items():
                    eq(is_gone(server, policy, render), now >= gone_at[policy, letter], f'{policy} {letter} gone at {now}')
        for key, render in renders.items():
            status = server.request('GET', path_of('html', key[0], render)).status
            eq(status == 200, gone_at[key] == NEVER, f'{key}: {status}')


def gone_exactly(server, policy, render, when):
    stop_clock(server, when - MILLISECOND)
    eq(is_gone(server, policy, render), False, f'gone before {when}')
    stop_clock(server, when)
    eq(is_gone(server, policy, render), True, f'gone at {when}')


@scene
def a_read_keeps_a_render_longer(binary):
    with policies_server(binary) as server:
        renders = {}
        for letter, rev, when in PUTS[:3]:
            stop_clock(server, at(when))
            renders[letter] = rev, put(server, 'app_ttl', letter, rev)
        stop_clock(server, at('2026-03-03 09:00'))
        eq(server.request('GET', path_of('html', 'app_ttl', renders['A'])).status, 200)
        stop_clock(server, at('2026-03-03 10:00'))
        put(server, 'app_ttl', 'D', 2)
        gone_exactly(server, 'app_ttl', renders['A'], at('2026-03-04 15:00'))


@scene
def a_stash_keeps_a_render_longer(binary):
    with policies_server(binary) as server:
        stop_clock(server, at('2026-03-01 10:00'))
        first = 1, put(server, 'latest_hash', 'A', 1)
        stop_clock(server, at('2026-03-02 09:00'))
        eq(server.request('GET', '/localhost/v1/latest_hash/html/Earth?stash=true').status, 200)
        stop_clock(server, at('2026-03-02 10:00'))
        put(server, 'latest_hash', 'B', 1)
        gone_exactly(server, 'latest_hash', first, at('2026-03-03 09:00'))


@scene
def a_hold_keeps_a_render_until_its_instant_or_its_release(binary):
    until = {'until': '2026-04-01T00:00:00Z'}
    with policies_server(binary) as server:
        renders = put_all(server, ('app_ttl', 'all'))
        held, other = renders['app_ttl', 'B'], renders['app_ttl', 'C']
        for render in (held, other):
            eq(server.json('PUT', path_of('hold', 'app_ttl', render), None, until).status, 200)
        stop_clock(server, at('2026-03-20 12:00'))
        eq(is_gone(server, 'app_ttl', other), False, 'before the release')
        eq(server.request('DELETE', path_of('hold', 'app_ttl', other)).status, 204)
        eq(is_gone(server, 'app_ttl', other), True, 'after the release')
        gone_exactly(server, 'app_ttl', held, at('2026-04-01 00:00'))


@scene
def a_purge_takes_what_is_pinned_and_leaves_a_fence(binary):
    with policies_server(binary) as server:
        renders = put_all(server, ('app_ttl',))
        old = renders['app_ttl', 'C']
        eq(server.json('PUT', path_of('hold', 'app_ttl', old), None, {'until': '2026-04-01T00:00:00Z'}).status, 200)
        stop_clock(server, at('2026-03-03 12:00'))
        eq(server.request('DELETE', '/localhost/v1/app_ttl/all/Earth/1').status, 204)
        eq(server.json('GET', path_of('html', 'app_ttl', old)).body['reason'], 'purged')
        eq(server.request('PUT', path_of('html', 'app_ttl', old), {'Content-Type': 'text/html'}, '<p>C').status, 410, 'the same tid')
        eq(server.request('PUT', '/localhost/v1/app_ttl/html/Earth/1', {'Content-Type': 'text/html'}, '<p>C').status, 201, 'without a tid')


@scene
def an_item_goes_to_the_dead_queue_after_three_attempts(binary):
    day = datetime.datetime(2026, 3, 1, 12)
    with Server(binary, test_hooks='2026-03-01T12:00:00Z') as server:
        def call(name, **message):
            status, _, said = server.json('POST', f'/v1/{name}', None, message)
            eq(status, 200, f'{name}: {said}')
            return said
        queue = {'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}
        call('queues.create', queue_name='dead', **queue)
        call('queues.create', queue_name='mail', dead_queue='dead', max_attempts=3, **queue)
        call('queue.produce', queue_name='mail', request_timeout='5s', items=[{'utf8': 'hello'}])
        ids = set()
        for attempt, (leased, ends) in enumerate(((5, 65), (70, 130), (135, 195)), 1):
            stop_clock(server, day + datetime.timedelta(seconds=leased))
            items = call('queue.lease', queue_name='mail', batch_size=1, client_id='worker', request_timeout='5s')['items']
            eq([item['attempts'] for item in items], [attempt])
            eq(items[0]['lease_deadline'][:19], (day + datetime.timedelta(seconds=ends)).isoformat())
            ids.add(items[0]['id'])
            stop_clock(server, day + datetime.timedelta(seconds=ends))
        eq(len(ids), 3, 'ids')
        eq(call('queue.peek', queue_name='mail').get('items', []), [])
        eq(len(call('queue.peek', queue_name='dead')['items']), 1)


main()
