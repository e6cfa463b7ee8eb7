"""Goal: all renders of one server come to another, once, with contents, headers, tids and holds;
what is interrupted goes on; what was purged, differs or is missing is told.
Method: two servers of the real binary."""
import json
import signal
import subprocess
import urllib.parse
import uuid

from cli import Client
from full import full
from harness import Server, check, eq, main, scene, wait_until
from origin import Origin

PAGE = '/localhost/v1/page'
NOT_UTF8 = b'\xff\x00\xfe'


def tid_of(number):
    ticks = (1700000000 + number) * 10000000 + 0x01b21dd213814000
    return str(uuid.UUID(fields=(ticks & 0xffffffff, ticks >> 32 & 0xffff,
                                 ticks >> 48 & 0x0fff | 0x1000, 0x80, 1, 5)))


def path(what, title, *name):
    return f'{PAGE}/{what}/' + '/'.join([urllib.parse.quote(title, safe=''), *map(str, name)])


def put(server, title, rev, number, html=None, more=None):
    bundle = {'html': {'headers': {'content-type': 'text/html', 'content-language': 'de'},
                       'body': html or f'<p>{title} {rev} {number}'}, **(more or {})}
    answer = server.request('PUT', path('all', title, rev, tid_of(number)),
                            {'content-type': 'application/json'}, json.dumps(bundle).encode())
    check(answer.status == 201, answer)


def names(server, title):
    history = server.request_again('GET', path('history', title) + '?limit=200')
    return [(item['rev'], item['tid']) for item in json.loads(history.body).get('items', [])]


def client_of(binary, source, target):
    client = Client(binary, target)
    client.env['PALIMPSEST_SERVER'] = 'http://127.0.0.1:1'
    return client, ('migrate', '--from', source.url, '--to', target.url)


@scene
def all_renders_come_with_contents_headers_and_holds(binary):
    with Server(binary) as source, Server(binary) as target:
        client, migrate = client_of(binary, source, target)
        parsed = {'data-parsoid': {'body': {'a': 1}}, 'image': {
            'headers': {'content-type': 'image/png', 'x-mine': 'kept'}, 'body': '/wD+',
            'encoding': 'base64'}}
        for title in ('Earth', 'A/B?c&d"e', 'Zürich', 'Mars'):
            for number, rev in enumerate((3, 3, 4, 9)):
                put(source, title, rev, number, more=parsed if rev == 9 else None)
        held = path('hold', 'Earth', 3, tid_of(0))
        eq(source.request('PUT', held, None, b'{"until": "2099-01-01T00:00:00Z"}').status, 200)
        pinned = source.request('GET', path('html', 'Mars', 4) + '?stash=true')
        eq(pinned.status, 200)
        done, = client.json(*migrate, '--verify')
        eq((done['renders'], done['stored'], done['refused'], done['left_out'], done['differ'],
            done['verified']), (16, 16, 0, 0, 0, {'equal': 16, 'same': 0, 'let_go': 0, 'refused': 0,
                                                  'differ': 0, 'missing': 0}), done)
        for title in ('Earth', 'A/B?c&d"e', 'Zürich', 'Mars'):
            eq(names(target, title), names(source, title), title)
            newest = target.request('GET', path('html', title))
            eq((newest.status, newest.body.decode(), newest.headers['content-language']),
               (200, f'<p>{title} 9 3', 'de'))
            eq(target.request('GET', path('data-parsoid', title)).body, b'{"a": 1}')
            image = target.request('GET', path('image', title))
            eq((image.body, image.headers['content-type'], image.headers['x-mine']),
               (NOT_UTF8, 'image/png', 'kept'))
        holds = target.json('GET', path('explain', 'Earth', 3, tid_of(0))).body['holds']
        until = [hold['until'] for hold in holds if hold['kind'] == 'hold']
        check(until and until[0].startswith('2099'), holds)
        holds = target.json('GET', path('explain', 'Mars', 4)).body['holds']
        check(any(hold['kind'] == 'stash' for hold in holds), holds)
        again, = client.json(*migrate)
        eq((again['stored'], again['already']), (0, 16), again)
        put(source, 'Earth', 10, 50)
        done, = client.json(*migrate)
        eq((done['stored'], done['already']), (1, 16), done)
        eq(target.request('GET', path('html', 'Earth')).body, b'<p>Earth 10 50')


@scene
def what_is_refused_differs_or_is_lost_is_told(binary):
    with Server(binary) as source, Server(binary) as target:
        client, migrate = client_of(binary, source, target)
        for title in ('Gone', 'Differs', 'Fine'):
            put(source, title, 1, 1)
            put(source, title, 2, 2)
        eq(target.request('DELETE', path('all', 'Gone')).status, 204)
        put(target, 'Differs', 1, 1, html='<p>another')
        ended = client(*migrate, '--verify')
        text = ended.stdout.decode()
        eq(ended.returncode, 1, (text, ended.stderr))
        eq(text.splitlines()[0], '6 renders: 3 stored, 0 already there, 2 refused as purged, '
           'hidden or too old to keep, 1 stored with other bytes')
        eq(text.splitlines()[1], 'verified: 3 equal, 2 refused, 1 with other bytes')
        eq(target.request('GET', path('html', 'Differs', 1)).body, b'<p>another')
        eq(target.request('GET', path('html', 'Gone')).status, 404)
        eq(len(names(target, 'Fine')), 2)


@scene
def what_is_killed_goes_on_and_loses_nothing(binary):
    count, long = 300, 250      # of one title more than a page of its history
    with Server(binary) as source, Server(binary) as target:
        client, migrate = client_of(binary, source, target)
        for number in range(count):
            put(source, f'T{number:04}', 1, number, html='<p>' + 'x' * 3000)
        for number in range(long):
            put(source, 'Long', 1 + number // 2, number)
        state = client.folder / 'state.json'
        for number in (signal.SIGKILL, signal.SIGTERM):
            had = json.loads(state.read_text())['done'] if state.exists() else 0
            with subprocess.Popen(
                    [client.binary, *migrate, '--state', str(state), '--parallel', '1'],
                    env=client.env, cwd=client.folder, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE) as process:
                wait_until(lambda had=had: state.exists() and state.read_text() and
                           json.loads(state.read_text())['done'] > had, 'some are kept')
                process.send_signal(number)
                process.communicate(timeout=60)
            check(process.returncode in (0, -number), process.returncode)
        done, = client.json(*migrate, '--state', str(state))
        eq((done['refused'], done['gone'], done['left_out']), (0, 0, 0), done)
        eq(state.read_text(), '')
        again, = client.json(*migrate, '--verify')
        eq((again['renders'], again['stored'], again['already'], again['verified']['equal']),
           (count + long, 0, count + long, count + long), again)
        eq(target.request('GET', path('html', 'Long')).body, b'<p>Long 125 249')


@scene
def of_a_title_that_is_full_the_newest_are_kept(binary):
    with Server(binary) as source:
        for rev in range(1, 6):
            put(source, 'Hot', rev, rev)
        client = Client(binary, source)
        with full() as (url, stored):
            done, = client.json('migrate', '--from', source.url, '--to', url, '--quiet')
        eq((done['stored'], done['refused']), (2, 3), done)
        eq(stored, [5, 4])


@scene
def a_server_that_goes_away_is_waited_for_and_another_is_told(binary):
    with Server(binary) as source, Server(binary) as target:
        client, migrate = client_of(binary, source, target)
        for number in range(300):
            put(source, f'T{number}', 1, number)
        with subprocess.Popen([client.binary, *migrate, '--parallel', '1'], env=client.env,
                              cwd=client.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            port = urllib.parse.urlsplit(source.url).port
            wait_until(lambda: len(names(target, 'T0')) > 0, 'some came')
            source.kill9()
            source.start('--listen', f'127.0.0.1:{port}')
            out, said = process.communicate(timeout=120)
        eq(process.returncode, 0, (out, said))
        again, = client.json('migrate', '--from', source.url, '--to', target.url)
        eq((again['stored'], again['already']), (0, 300), again)
        for more, code, says in (((), 2, '--from'), (('--from', 'ftp://a'), 2, 'ftp'),
                                 (('--from', source.url, '--domain', 'b'), 5, '404'),
                                 (('--from', 'http://127.0.0.1:1'), 4, ':1')):
            ended = client('migrate', '--to', target.url, *more)
            eq(ended.returncode, code, (more, ended.stderr))
            check(says in ended.stderr.decode(), ended.stderr)


@scene
def what_the_wiki_hides_later_is_purged_at_the_other_server(binary):
    with Origin() as origin, Server(binary, *origin.options('localhost')) as source, \
            Server(binary) as target:
        origin.page('Earth', (1, 'old'), (7, 'new'))
        old, newest = path('html', 'Earth', 1), path('html', 'Earth')
        for where in (newest, old):
            eq(source.request('GET', where).status, 200)
        client, migrate = client_of(binary, source, target)
        done, = client.json(*migrate)
        eq((done['stored'], done['hidden']), (2, 0), done)
        eq(target.request('GET', old).status, 200)
        origin.hide('Earth', 1)
        check(source.request('GET', old, {'Cache-Control': 'no-cache'}).status in (403, 410), 'hidden')
        for purged in (1, 0):               # what is purged there already is left alone
            done = client(*migrate, '--json')
            eq(json.loads(done.stdout)['hidden'], purged, done)
            check(b'purges of that server' in done.stderr, done)
            eq(target.request('GET', old).status, 410)
            eq(target.request('GET', newest).status, 200)


main()
