"""Goal: an operator sees from the command line how often wikis are asked, what a reader of a page gets and why, and can have
a page, or all pages, looked at or made anew.
Method: the binary as a client of a server in front of a scripted wiki."""
import subprocess
import tempfile
import time

from cli import Client
from harness import Server, check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, path
from render_help import name_of, origin_server

FOREVER = ('--set', 'domains.localhost.origin.trust_ttl=1d')    # readers ask for nothing meanwhile


def _refused(client, *args, code=1, says=''):
    done = client(*args)
    eq(done.returncode, code, f'{args}: {done.stderr!r}')
    check(says in done.stderr.decode(), f'{args}: {done.stderr!r}')


def _said(client, *args):
    """The lines of its output, as pairs."""
    lines = client.ok(*args).splitlines()
    return {line[:14].strip(): line[15:] for line in lines}


def _why(client, title='A'):
    doc, = client.json('fresh', 'why', 'localhost', title)
    return doc, doc['buckets'][0]


@scene
def why_says_what_a_reader_gets(binary):
    with Origin() as origin, origin_server(binary, origin, *FOREVER) as server:
        origin.page('A', (1, 'first'))
        client = Client(binary, server)
        doc, bucket = _why(client)
        eq((doc['word'], doc['asks'], bucket['state']), (None, 'first', 'nothing'))
        eq(bucket['reader'], 'a first render: nothing is stored')
        rev, render = name_of(get(server, 'A'))
        doc, bucket = _why(client)
        eq((doc['title'], doc['word']['rev'], doc['word']['missing'], doc['age_s']), ('A', 1, False, 0))
        eq((bucket['rev'], bucket['tid'], bucket['state']), (rev, render, 'fine'))
        eq(bucket['made_under']['said'], doc['word']['said'])
        eq(bucket['reader'], 'at once: what is stored, which is as the wiki has it')
        said = _said(client, 'fresh', 'why', 'localhost', 'A')
        eq((said['title'], said['trust'], said['latest']), ('A', 'asked 0 s ago', f'{rev}/{render}'))
        check(said['word'].startswith('revision 1 of page 1065, touched 2026-01-01T00:00:00.000Z; said '), said)
        eq(said['reader gets'], bucket['reader'])
        eq(origin.count('words'), 0, 'it asks nobody')


@scene
def check_asks_the_wiki_and_says_what_was_news(binary):
    with Origin() as origin, origin_server(binary, origin, *FOREVER) as server:
        origin.page('A', (1, 'first'))
        client = Client(binary, server)
        get(server, 'A')
        server.clock(advance='1s')      # words of one instant are one
        doc, = client.json('fresh', 'check', 'localhost', 'a')
        eq((doc['title'], doc['news'], origin.count('words')), ('A', False, 1))
        origin.touched['A'] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())
        server.clock(advance='1s')
        said = _said(client, 'fresh', 'check', 'localhost', 'A')
        eq((said['news'], said['state']), ('yes: nobody had told of it', 'touched'))
        eq(said['reader gets'], 'at once: a new render, because the page was touched since')
        get(server, 'A')
        eq(origin.count('render'), 2)
        origin.page('A', (1, 'first'), (2, 'second'))
        server.clock(advance='1s')
        doc, = client.json('fresh', 'check', 'localhost', 'A')
        eq(doc['buckets'][0]['reader'], 'at once: a new render, because the wiki has revision 2')
        origin.delete('A')
        server.clock(advance='1s')
        doc, = client.json('fresh', 'check', 'localhost', 'A')
        eq((doc['word']['missing'], doc['buckets'][0]['state']), (True, 'deleted'))
        origin.fault('words', status_of(503, retry_after='20'))
        _refused(client, 'fresh', 'check', 'localhost', 'B', code=4, says='the wiki could not be asked')


@scene
def what_is_not_stored_is_told_from_what_the_wiki_has_not(binary):
    with Origin() as origin, origin_server(binary, origin) as server:
        origin.page('A', (1, 'first'))
        client = Client(binary, server)
        # Nobody was asked.
        said = _said(client, 'fresh', 'why', 'localhost', 'A')
        eq((said['word'], said['reader gets']), ('none: nothing of it is stored', 'a first render: nothing is stored'))
        check('trust' not in said, said)
        # The wiki has it.
        said = _said(client, 'fresh', 'check', 'localhost', 'A')
        check(said['word'].startswith('revision 1 of page 1065, touched '), said)
        eq((said['trust'], said['news']), ('asked 0 s ago', 'no: nothing of it is stored'))
        eq(said['reader gets'], 'a first render: nothing is stored')
        # It has not.
        for title in ('Nope', 'nope'):
            doc, = client.json('fresh', 'check', 'localhost', title)
            eq((doc['title'], doc['word']['missing'], doc['age_s'], doc['news']), ('Nope', True, 0, False))
            eq((doc['buckets'][0]['state'], doc['buckets'][0]['reader']), ('nothing', '404: the wiki has no such page'))
        said = _said(client, 'fresh', 'check', 'localhost', 'Nope')
        check(said['word'].startswith('no such page; said 2'), said)
        # That is known without asking, as long as a reader is told so.
        eq(server.request('GET', path('html', 'Gone')).status, 404)
        asked = sum(origin.calls.values())
        for title in ('Nope', 'Gone'):
            doc, bucket = _why(client, title)
            eq((doc['word']['missing'], doc['word']['said'], doc['age_s']), (True, None, 0))
            eq(bucket['reader'], '404: the wiki has no such page')
            eq(server.request('GET', path('html', title)).status, 404)
        said = _said(client, 'fresh', 'why', 'localhost', 'Nope')
        eq((said['word'], said['trust']), ('no such page', 'asked 0 s ago'))
        eq(sum(origin.calls.values()), asked)
        server.clock(advance='61s')
        doc, bucket = _why(client, 'Nope')
        eq((doc['age_s'], bucket['reader']), (61, 'after the wiki is asked: 404, if it has no such page still'))
        eq(server.request('GET', path('html', 'Nope')).status, 404)
        check(sum(origin.calls.values()) > asked, 'asked')
        # One that was stored, and is deleted.
        get(server, 'A')
        origin.delete('A')
        server.clock(advance='1s')
        doc, = client.json('fresh', 'check', 'localhost', 'A')
        eq((doc['news'], doc['buckets'][0]['state']), (True, 'deleted'))
        eq(doc['buckets'][0]['reader'], '404: the wiki has no such page')
        # No page can have it.
        _refused(client, 'fresh', 'check', 'localhost', 'Special:X', code=5, says='no page can have a title of this namespace')


@scene
def what_is_told_to_be_redone_is_made_anew_once(binary):
    with Origin() as origin, origin_server(binary, origin, *FOREVER) as server:
        for title in 'AB':
            origin.page(title, (1 if title == 'A' else 2, 'text '))
        origin.stamp = 'before'
        client = Client(binary, server)
        for title in 'ABAB':
            get(server, title)
        eq(origin.count('render'), 2)
        origin.stamp = 'after'
        server.clock(advance='1s')
        check('is made anew by its next readers' in client.ok('fresh', 'redo', '--domain', 'localhost'), 'said')
        eq(_why(client)[1]['reader'], 'at once: a new render, because all of the domain is to be made anew')
        for _ in range(3):
            check(b'after' in get(server, 'A').body, 'made anew')
        eq(origin.count('render'), 3, 'once')
        server.kill9()
        server.start()
        server.clock(advance='10s')
        check(b'after' in get(server, 'B').body, 'also after a kill')
        check(b'after' in get(server, 'A').body, 'it was')
        eq(origin.count('render'), 4)
        client = Client(binary, server)     # the server listens elsewhere now
        domain, = client.json('fresh', 'ls')
        check(domain['redo_before'] > '2026-01-01', domain)
        server.clock(advance='1s')
        check('is made anew by its next readers' in client.ok('fresh', 'redo', 'localhost'), 'named as in the other verbs')
        check(client.json('fresh', 'ls')[0]['redo_before'] > domain['redo_before'], 'told once more')
        get(server, 'A')
        eq(origin.count('render'), 5)


@scene
def ls_says_how_the_sweep_goes(binary):
    with Origin() as origin, origin_server(binary, origin, *FOREVER) as server:
        origin.page('A', (1, 'first'))
        client = Client(binary, server)
        get(server, 'A')
        eq(client.ok('fresh', 'sweep', 'localhost', '--wait'), '1 titles asked for, 0 missed so far\n')
        domain, = client.json('fresh', 'ls')
        eq((domain['domain'], domain['closed'], domain['checks'], domain['words']), ('localhost', False, 1, 1))
        eq((domain['sweep']['period_s'], domain['sweep']['state'], domain['sweep']['titles']), (86400, 'rests', 1))
        head, line = client.ok('fresh', 'ls').splitlines()
        check(head.startswith('DOMAIN     CALLS  WORDS  FAILED  MISSED  ALL SINCE'), head)
        check(line.startswith('localhost      1      1       0       0  2026-01-01T00:00:0') and line.endswith('rests'), line)
        eq(client.ok('fresh', 'sweep', 'localhost'), 'begun; fresh ls says how far it is\n')
        wait_until(lambda: client.json('fresh', 'ls')[0]['sweep']['laps'] == 2, 'it is over')
        origin.fault('words', status_of(503, retry_after='1'))
        client.ok('fresh', 'sweep', 'localhost')
        wait_until(lambda: 'goes, fails, 0 of 1' in client.ok('fresh', 'ls'), 'the wiki is away')


@scene
def what_cannot_be_asked_is_refused(binary):
    with Origin() as origin, origin_server(binary, origin, '--domain', 'plain.test') as server:
        client = Client(binary, server)
        for args in (('sweep',), ('redo',), ('check', 'A'), ('why', 'A')):
            _refused(client, 'fresh', args[0], 'other.test', *args[1:], code=5, says='not configured')
        _refused(client, 'fresh', 'redo', '--domain', 'other.test', code=5, says='not configured')
        for args in (('sweep', 'plain.test'), ('redo', 'plain.test'), ('redo', '--domain', 'plain.test'),
                     ('check', 'plain.test', 'A')):
            _refused(client, 'fresh', *args, code=6, says='nobody can be asked')
        doc, = client.json('fresh', 'why', 'plain.test', 'A')
        eq((doc['asks'], doc['buckets'][0]['reader']), (None, '404: nothing is stored'))
        _refused(client, 'fresh', 'redo', code=2, says='name the domain')
        _refused(client, 'fresh', 'redo', 'localhost', '--domain', 'localhost', code=2, says='name the domain once')
        _refused(client, 'fresh', 'redo', 'localhost', 'plain.test', code=2, says='')
        _refused(client, 'fresh', 'check', 'localhost', '[', code=6, says='')
        for body in (b'', b'{', b'[]', b'{"domain": 1}', b'{"domain": "localhost"}', b'{"domain":"localhost","title":"A","x":1}'):
            got = server.request('POST', '/v1/admin.change.why', {'Content-Type': 'application/json'}, body)
            eq(got.status, 400, body)
        eq(server.json('GET', '/v1/admin.change').body['domains'][0]['domain'], 'localhost')
    with Server(binary) as server:
        eq(server.json('GET', '/v1/admin.change').body['domains'], [])
        eq(Client(binary, server).ok('fresh', 'ls').splitlines()[0][:6], 'DOMAIN')


@scene
def rights_are_the_operators(binary):
    with tempfile.TemporaryDirectory() as data, Origin() as origin:
        keys = {role: subprocess.run([binary, 'token', 'create', '--role', role, '--data', f'{data}/d', '--new'], check=True,
                                     capture_output=True, text=True, timeout=60).stdout.strip() for role in ('read', 'admin')}
        with Server(binary, *origin.options('localhost'), '--set', 'auth=internal', data=f'{data}/d') as server:
            title, domain = b'{"domain": "localhost", "title": "A"}', b'{"domain": "localhost"}'
            for method, call, body in (('GET', '', None), ('POST', '.look', title), ('POST', '.why', title),
                                       ('POST', '.sweep', domain), ('POST', '.redo', domain)):
                for role, status in (('read', 403), ('admin', 200)):
                    headers = {'Authorization': f'Bearer {keys[role]}', 'Content-Type': 'application/json'}
                    eq(server.request(method, f'/v1/admin.change{call}', headers, body).status, status, call)


main()
