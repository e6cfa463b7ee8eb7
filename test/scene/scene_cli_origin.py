"""Goal: render, prewarm and origin check do what their help says, and say what is wrong with an origin. Method: the
binary as client and as server, in front of a scripted wiki that counts; the wiki's list of pages is scripted here."""
import contextlib
import http.server
import json
import os
import pty
import socket
import subprocess
import threading
import urllib.parse

from cli import Client
from harness import Server, check, eq, main, scene
from origin import Origin, bad_json, cut, status_of

NAMESPACES = {0: '', 10: 'Template', -1: 'Special'}


class Listing:
    """api.php of a wiki that lists its pages, .lot at a time; broken_at: the lot that cannot be had; places: where it says,
    in turn and for ever, that its list goes on."""

    def __init__(self, pages, lot=3):
        self.pages, self.lot, self.broken_at, self.asked = sorted(pages), lot, None, 0
        self.places = []
        listing = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                status, value = listing.answer(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)))
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.http.server_port}/w/api.php'

    def __enter__(self):
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self._thread.join()
        self.http.server_close()

    def answer(self, fields):
        if fields.get('meta') == 'siteinfo':
            spaces = {str(n): {'id': n, 'name': name} for n, name in NAMESPACES.items()}
            return 200, {'query': {'namespaces': spaces, 'statistics': {'pages': len(self.pages)}}}
        self.asked += 1
        if self.asked == self.broken_at:
            return 500, {}
        number = int(fields['apnamespace'])
        prefix = NAMESPACES[number] + ':' if number else ''
        bare = [t[len(prefix):] for t in self.pages if t.startswith(prefix) and (prefix or ':' not in t)]
        bare = [t for t in bare if t >= fields.get('apfrom', '')]
        lot = [{'title': (prefix + t).replace('_', ' ')} for t in bare[:self.lot]]
        more = {'continue': {'apcontinue': bare[self.lot]}} if len(bare) > self.lot else {}
        if self.places:
            more = {'continue': {'apcontinue': self.places[self.asked % len(self.places)]}}
        return 200, {'query': {'allpages': lot}, **more}


@contextlib.contextmanager
def _wiki(binary, *titles):
    with Origin() as origin:
        for title in titles:
            origin.page(title, (7, f'text of {title}'))
        with Server(binary, *origin.options('localhost')) as server:
            yield origin, Client(binary, server)


@scene
def render_tells_a_new_render_from_the_same(binary):
    with _wiki(binary) as (origin, client):
        origin.page('A_b', (1, 'old'), (7, 'new'))
        first, = client.json('render', 'A_b')
        eq((first['rev'], first['changed'], first['content_type'].split(';')[0]), (7, True, 'text/html'))
        second, = client.json('render', 'A_b')
        eq((second['tid'], second['changed']), (first['tid'], False))
        eq(origin.count('render'), 2)
        origin.stamp = ' and a template'
        third, = client.json('render', 'A b')
        check(third['changed'] and third['tid'] != first['tid'], third)
        check('a template' in client.ok('get', 'A b'), 'the new render is served')
        old, = client.json('render', 'A_b', '1')
        eq((old['rev'], old['changed']), (1, True))
        check('render ' + old['tid'] in client.ok('render', 'A_b', '1'), 'the same for people')
        for args, says in ((['Nope'], b'404'), (['A_b', '9'], b'404')):
            done = client('render', *args)
            eq((done.returncode, done.stdout), (5, b''), ' '.join(args))
            check(says in done.stderr, done.stderr)


@scene
def prewarm_renders_what_is_missing_and_tells_what_cannot_be(binary):
    with _wiki(binary, 'A', 'B', 'C') as (origin, client):
        client.ok('get', 'A')
        (client.folder / 'list').write_text('A\n\n  B\r\nmissing\nC')
        done = client('prewarm', 'list', '--json')
        eq(done.returncode, 0, done.stderr)
        eq(json.loads(done.stdout), {'titles': 4, 'rendered': 2, 'already': 1, 'asked_before': 0, 'refused': 1})
        check(b'left out: missing: the server answered 404' in done.stderr, done.stderr)
        eq(client('prewarm', 'list', '--json', '--quiet', '--restart').stderr, b'')
        eq(origin.count('render'), 3)
        fresh, = client.json('prewarm', '-', '--fresh', stdin=b'A\nB\n')
        eq((fresh['rendered'] + fresh['already'], origin.count('render')), (2, 5))


@scene
def prewarm_goes_on_where_it_ended(binary):
    pages = [f'P{n:02}' for n in range(10)] + ['Template:T1', 'Template:T2']
    with _wiki(binary, *pages) as (origin, client), Listing(pages) as listing:
        listing.broken_at = 3
        broken = client('prewarm', '--wiki', listing.url, '--quiet')
        eq(broken.returncode, 1)
        check(b'answered 500' in broken.stderr, broken.stderr)
        eq(origin.count('render'), 6)
        rest, = client.json('prewarm', '--wiki', listing.url)
        eq((rest['titles'], rest['asked_before'], rest['rendered'], rest['already']), (12, 6, 6, 0))
        again, = client.json('prewarm', '--wiki', listing.url)
        eq((again['titles'], again['asked_before'], again['rendered'], again['already']), (12, 12, 0, 0))
        only, = client.json('prewarm', '--wiki', listing.url, '--namespace', '10')
        eq((only['titles'], only['rendered'], only['already']), (2, 0, 2))
        eq(origin.count('render'), 12)
        (client.folder / 'list').write_text('\n'.join(pages))
        eq(client('prewarm', 'list', '-q').returncode, 0)
        (client.folder / 'list').write_text('\n'.join(pages[1:]) + '\nP00\n')
        other = client('prewarm', 'list', '-q')
        eq(other.returncode, 1)
        check(b'--restart' in other.stderr, other.stderr)


@scene
def prewarm_leaves_out_a_title_that_can_be_none(binary):
    pages = ['A', 'B' * 1100, '', 'C']
    with _wiki(binary, 'A', 'C') as (_, client), Listing(pages) as listing:
        done = client('prewarm', '--wiki', listing.url)
        eq(done.returncode, 0, done.stderr)
        check(b'2 titles: 2 rendered, 0 already there, 2 refused' in done.stdout, done.stdout)
        check(b'its title is too long' in done.stderr and b'it has no title' in done.stderr, done.stderr)


@scene
def prewarm_gives_up_on_a_page_but_not_on_an_origin(binary):
    titles = [f'P{n:02}' for n in range(40)]
    with _wiki(binary, *titles) as (origin, client):
        origin.fault('render', bad_json)
        broken = client('prewarm', '-', '--parallel', '1', stdin='\n'.join(titles).encode())
        eq((broken.returncode, broken.stdout), (1, b''))
        check(b'prewarm: the server answered 502' in broken.stderr, broken.stderr)
        check(broken.stderr.count(b'left out') < 40, 'it went on to the end')


@scene
def prewarm_draws_on_a_terminal(binary):
    with _wiki(binary, *(f'P{n:03}' for n in range(200))) as (_, client):
        (client.folder / 'list').write_text('\n'.join(f'P{n:03}' for n in range(200)))
        leader, follower = pty.openpty()
        process = subprocess.Popen([client.binary, 'prewarm', 'list', '--parallel', '1'], stdin=subprocess.DEVNULL,
                                   stdout=follower, stderr=follower, env=client.env, cwd=client.folder)
        os.close(follower)
        shown = b''
        with contextlib.suppress(OSError):    # the other end is closed: it ended
            while piece := os.read(leader, 65536):
                shown += piece
        os.close(leader)
        eq(process.wait(60), 0)
        check(b'rendering [' in shown and b' of 200 pages' in shown, shown)
        check(b'200 titles: 200 rendered, 0 already there' in shown, shown)


@scene
def prewarm_ends_where_a_wiki_has_no_end(binary):
    with _wiki(binary, 'A', 'B', 'C') as (_, client), Listing(['A', 'B', 'C'], lot=1) as listing:
        for places, says in ((['A'], b'does not get on'), (['C', 'B', 'A'], b'does not get on'), (['x'], b'does not get on'),
                             (['B' * 1100], b'over 1024 bytes'), ([7], b'at no title')):
            listing.places, listing.asked = places, 0
            done = client('prewarm', '--wiki', listing.url, '--quiet', '--restart')
            eq(done.returncode, 1, places)
            check(says in done.stderr, done.stderr)
            check(listing.asked < 20, f'{places}: {listing.asked} lots were asked for')


@scene
def what_is_asked_wrongly_is_said(binary):
    with _wiki(binary) as (_, client):
        for args, code, says in (
                (['prewarm'], 2, 'one of the two'), (['prewarm', 'a', '--wiki', 'http://x/'], 2, 'one of the two'),
                (['prewarm', '--wiki', 'ftp://x'], 2, 'URL of an api.php'),
                (['prewarm', 'nofile'], 1, 'cannot read nofile'),
                (['prewarm', 'a', '--namespace', '1'], 2, 'goes with --wiki'),
                (['prewarm', '--wiki', 'http://x/', '--namespace', '-1'], 2, 'a number from 0 on'),
                (['prewarm', '-', '--domain', 'elsewhere'], 5, '404'), (['render'], 2, 'something is missing'),
                (['origin', 'check'], 2, 'no domain has an origin'),
                (['origin', 'check', 'x', '--set', 'domains.y.origin.url=http://h/rest.php'], 2, 'x has no origin'),
                (['origin', 'check', '--set', 'nonsense=1'], 2, 'nonsense')):
            done = client(*args)
            eq(done.returncode, code, ' '.join(args))
            check(says in done.stderr.decode(), done.stderr)


def _origin_check(binary, origin, *args, **options):
    done = subprocess.run([binary, 'origin', 'check', '--json', *origin.options('localhost', **options), *args],
                          capture_output=True, timeout=100, check=False)
    found, = json.loads(done.stdout)
    return done.returncode, {step['check']: (step['ok'], step['text']) for step in found['checks']}


@scene
def origin_check_finds_what_is_wrong(binary):
    with Origin() as origin:
        origin.page('Main_Page', (1, 'x'))
        code, steps = _origin_check(binary, origin)
        eq((code, [ok for ok, _ in steps.values()]), (0, [True] * 4), str(steps))
        eq(list(steps), ['siteinfo', 'render', 'revision', 'transform'])
        plain = subprocess.run([binary, 'origin', 'check', *origin.options('localhost')], capture_output=True,
                               text=True, timeout=100, check=False)
        eq((plain.returncode, plain.stdout.count('  ok  ')), (0, 4), plain.stdout)
        for kind, fault, wrong in (('siteinfo', status_of(404), 'siteinfo'), ('render', cut, 'render'),
                                   ('render', status_of(503), 'render'), ('render', bad_json, 'render'),
                                   ('transform', status_of(500), 'transform')):
            origin.fault(kind, fault)
            code, steps = _origin_check(binary, origin)
            eq((code, steps[wrong][0]), (1, False), f'{kind} {fault}: {steps}')
            origin.fault(kind, None)
        code, steps = _origin_check(binary, origin, '--title', 'Nope')
        check(code == 1 and '--title' in steps['render'][1], str(steps))
        code, steps = _origin_check(binary, origin, domain='other.test')
        check(code == 1 and not steps['render'][0], str(steps))
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
    url = f'domains.localhost.origin.url=http://127.0.0.1:{port}/w/rest.php'
    done = subprocess.run([binary, 'origin', 'check', '--set', url], capture_output=True, text=True, timeout=100,
                          check=False)
    eq((done.returncode, done.stdout.count('FAILED')), (1, 3), done.stdout)


main()
