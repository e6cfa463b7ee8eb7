"""Goal: listeners, configuration, exit codes and SIGHUP as docs/operations.md says.
Method: the binary with files, variables and flags; its lines, its status and what it then serves."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile

from harness import EXIT_TIMEOUT, Server, check, eq, main, scene, wait_until
from origin import Origin
from page_help import path as page_path
from render_help import Crowd, metric

DOCS = pathlib.Path(__file__).resolve().parents[2] / 'docs'


def run(binary, *args, env=None, **more):
    return subprocess.run([binary, *args], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **(env or {})}, **more)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(('::1', 0))
        return True
    except OSError:
        return False


@scene
def file_environment_and_flags_are_read_in_this_order(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'p.yaml'
        path.write_text('domains:\n  en.example.test: {}\npage: { contents: [html] }\nlog: { level: error }\n'
                        'buckets: { mobile: { kind: page, contents: [lead, remaining], policy: latest_hash } }\n')
        env = {'PALIMPSEST_LOG_LEVEL': 'info', 'PALIMPSEST_DOMAINS': 'de.example.test', 'PALIMPSEST_NO_SUCH': '1',
               'PALIMPSEST_BUCKETS_MOBILE_POLICY': 'all'}
        with Server(binary, '--config', path, '--domain', 'fr.example.test', env=env) as server:
            for domain in ('en.example.test', 'de.example.test', 'fr.example.test'):
                put = server.request('PUT', f'/{domain}/v1/page/html/A/1', {'Content-Type': 'text/html'}, b'x')
                eq(put.status, 201, domain)
            other = server.json('GET', '/localhost/v1/page/html/A')
            eq(other.status, 404)
            check('domain_not_found' in json.dumps(other.body), str(other.body))
            put = server.request('PUT', '/en.example.test/v1/page/lead/A/1', {'Content-Type': 'text/html'}, b'x')
            check(400 <= put.status < 500, f'a content that is not configured: {put.status}')
            put = server.request('PUT', '/en.example.test/v1/mobile/lead/A/1', {'Content-Type': 'text/html'}, b'x')
            eq(put.status, 201, str(put.body))
            check('PALIMPSEST_NO_SUCH: there is no such option; ignored' in server.stderr(), server.stderr())
            check('PALIMPSEST_BUCKETS_MOBILE_POLICY (what has a name of its own is set in the file or with --set): '
                  in server.stderr(), server.stderr())
            wait_until(lambda: 'serve.ready' in server.stderr(), 'log.level info of the environment')


@scene
def a_wrong_file_names_file_line_and_option(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'p.yaml'
        for text, line, what in (('page:\n  grace_ttl: soon\n', 2, 'page.grace_ttl'), ('data: x\nno_such: 1\n', 2, 'no_such'),
                                 ('\nlisten: [127.0.0.1:0\n', 3, 'not YAML'), ('auth: x\n', 1, 'auth'),
                                 ('page: { policy: all, ttl: 3d }\n', 1, 'page.ttl'),
                                 ('buckets:\n  mobile: { kind: page, stash_bytes_max: 10k }\n', 2, 'page.stash_bytes_max'),
                                 ('page: 3\n', 1, 'page: is a section, not a value'), ('queue: x\n', 1, 'queue: is a section'),
                                 ('lists: 3\n', 1, 'lists: is a section'), ('buckets: 3\n', 1, 'buckets: is a section'),
                                 ('page:\n\tgrace_ttl: 1d\n', 2, 'not YAML: a tab: lines are indented with blanks'),
                                 ('data: a: b\n', 1, 'put the value in quotes'), ('data: "x\n', 2, 'ends within quotes'),
                                 ('page:\n  ttl: 1d\n policy: all\n', 3, 'not at the column of the lines above'),
                                 ('grace_ttl: 1d\n', 1, 'there is no such option; page.grace_ttl is one'),
                                 ('stores: [x]\n', 1, 'queue.stores is one'), ('listne: x\n', 1, 'palimpsest options lists them'),
                                 ('listen: wiki:80\n', 1, 'is no ADDR:PORT; ADDR is a number such as 127.0.0.1 or [::1], or localhost'),
                                 ('admin_listen: wiki:80\n', 1, 'is no ADDR:PORT; ADDR is a number'),
                                 ('domains: { a: { origin: { url: "http://127.0.0.1:1/w/rest.php",\n    rerender_concurrency: 9 } } }\n', 2,
                                  'domains.a.origin.rerender_concurrency: 9 is more than domains.a.origin.concurrency (8)'),
                                 ('domains: [a]\nlisten: 0.0.0.0:0\n', None, 'token create')):
            path.write_text(text)
            done = run(binary, 'serve', '--config', str(path), cwd=folder)
            eq(done.returncode, 2, text)
            eq(len(done.stderr.splitlines()), 1, done.stderr)
            check(what in done.stderr, done.stderr)
            if line is not None:
                check(f'{path}:{line}:' in done.stderr, done.stderr)
        eq(sorted(os.listdir(folder)), ['p.yaml'], 'nothing was made')


@scene
def an_admin_listener_takes_the_admin_routes(binary):
    with Server(binary, '--admin-listen', '127.0.0.1:0') as server:
        admin = server.wait_line('admin on ')
        eq(server.lines[0], f'listening on {server.url}')
        eq(server.lines[1], f'admin on {admin}')
        main_port = server.port
        eq(server.request('GET', '/v1/admin.tokens').status, 400, 'unknown on the main listener')
        server.port = int(admin.rpartition(':')[2])
        eq(server.request('GET', '/healthz').status, 200)
        eq(server.request('GET', '/metrics').status, 200)
        check(server.json('GET', '/?spec').body['openapi'].startswith('3.1'), 'the specification on the admin listener')
        eq(server.request('GET', '/v1/admin.tokens').status, 200)
        check(server.request('GET', '/localhost/v1/page/html/A').status in (404, 501), 'content on the admin listener')
        server.port = main_port
        eq(server.request('GET', '/healthz').status, 200)
        eq(server.request('GET', '/metrics').status, 200)


@scene
def several_listeners_each_have_a_line(binary):
    wanted = '127.0.0.1:0,127.0.0.2:0' + (',[::1]:0' if has_ipv6() else '')
    with Server(binary, '--listen', wanted) as server:
        wait_until(lambda: len(server.lines) == wanted.count(',') + 1, 'all lines')
        for line in server.lines:
            host, _, port = line.removeprefix('listening on http://').rpartition(':')
            server.host, server.port = host.strip('[]'), int(port)
            eq(server.request('GET', '/healthz').status, 200, line)


@scene
def a_taken_port_or_folder_is_exit_1(binary):
    with Server(binary) as server, tempfile.TemporaryDirectory() as folder:
        taken = run(binary, 'serve', '--data', f'{folder}/d', '--listen', f'127.0.0.1:{server.port}')
        eq(taken.returncode, 1, taken.stderr)
        check(str(server.port) in taken.stderr, taken.stderr)
        eq(taken.stdout, '')
        second = run(binary, 'serve', '--data', str(server.data), '--listen', '127.0.0.1:0')
        eq(second.returncode, 1, second.stderr)
        check('use' in second.stderr, second.stderr)
        eq(second.stdout, '')
        pathlib.Path(f'{folder}/file').write_text('x')
        nowhere = run(binary, 'serve', '--data', f'{folder}/file/d', '--listen', '127.0.0.1:0')
        eq(nowhere.returncode, 1, nowhere.stderr)


@scene
def a_damaged_store_is_exit_3_with_what_to_do(binary):
    with Server(binary) as server:
        for rev in range(1, 40):
            put = server.request_again('PUT', f'/localhost/v1/page/html/A/{rev}', {'Content-Type': 'text/html'},
                                       os.urandom(3000))
            eq(put.status, 201)
        eq(server.sigterm(), 0)
        damaged = 0
        for path in server.data.rglob('*'):
            if path.is_file() and path.stat().st_size > 4096 and 'lock' not in path.name:
                with open(path, 'r+b') as file:
                    file.write(b'\xa5' * 4096)
                damaged += 1
        check(damaged > 0, 'there is a file to damage')
        done = run(binary, 'serve', '--data', str(server.data), '--listen', '127.0.0.1:0')
        eq(done.returncode, 3, done.stderr)
        eq(done.stdout, '')
        check('palimpsest: ' in done.stderr, done.stderr)


@scene
def sighup_reloads_the_level_and_names_the_rest(binary):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'p.yaml'
        path.write_text('hot_bytes: 1M\n')
        with Server(binary, '--config', path) as server:
            path.write_text('hot_bytes: 2M\nlog: { level: debug }\ndomains: [x]\n')
            server.signal(signal.SIGHUP)
            wait_until(lambda: 'reload.done' in server.stderr(), 'the reload')
            check('reload.needs_restart option=hot_bytes' in server.stderr(), server.stderr())
            check('reload.needs_restart option=domains' in server.stderr(), server.stderr())
            path.write_text('hot_bytes: lots\n')
            server.signal(signal.SIGHUP)
            wait_until(lambda: 'reload.refused' in server.stderr(), 'the refusal')
            check('p.yaml:1: hot_bytes' in server.stderr(), server.stderr())
            eq(server.request('GET', '/healthz').status, 200)


@scene
def sighup_lets_more_calls_run_at_once(binary):
    with tempfile.TemporaryDirectory() as folder, Origin() as origin:
        config = pathlib.Path(folder) / 'p.yaml'
        # Not in the order of their names: each has its own limit.
        fields = ('domains: { zz.test: { origin: { url: "http://127.0.0.1:1/w/rest.php", concurrency: 50 } }, '
                  f'localhost: {{ origin: {{ url: "http://127.0.0.1:{origin.port}/w/rest.php", '
                  'domain: wiki.test, timeout: 4m, concurrency: %d } } }\nflight: { makes_max: %d }\n')
        config.write_text(fields % (1, 64))
        titles = [f'T{n}' for n in range(6)]
        for n, title in enumerate(titles):
            origin.page(title, (n + 1, 'text'))
        with Server(binary, '--config', config, '--set', 'flight.wait_timeout=4m', '--set', 'flight.make_timeout=4m') as server:
            with origin.gate('render') as gate:
                crowd = Crowd(server, [(page_path('html', title), None) for title in titles])
                wait_until(lambda: metric(server, 'flight_waiters') == len(titles), 'all have asked')
                wait_until(lambda: gate.waiting == 1, 'one is asked for')
                for concurrency, makes, running in ((3, 2, 2), (3, 64, 3)):
                    config.write_text(fields % (concurrency, makes))
                    server.signal(signal.SIGHUP)
                    wait_until(lambda n=running: gate.waiting >= n, 'as many are asked for as may be now')
                    eq(gate.waiting, running)
                check('reload.changed option=domains.localhost.origin.concurrency' in server.stderr(), server.stderr())
                check('reload.changed option=flight.makes_max' in server.stderr(), server.stderr())
                gate.open()
                eq([answer.status for answer in crowd.wait()], [200] * len(titles))


def connections_with(binary, files, *options):
    """How many connections a server takes that may open so many files; None: as many as it was told, without a word."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([binary, 'serve', '--data', f'{folder}/d', '--listen', '127.0.0.1:0', *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
        try:
            line = process.stdout.readline()
            check(line.startswith('listening on '), line)
        finally:
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=EXIT_TIMEOUT)
        eq(process.returncode, 0, stderr)
    cut = re.search(r'serve[.]connections_cut .*now=([0-9]+)', stderr)
    return int(cut.group(1)) if cut else None


@scene
def few_files_mean_few_connections_and_a_word(binary):
    origin = ('--set', 'domains.localhost.origin.url=http://127.0.0.1:1/w/rest.php')
    eq(connections_with(binary, 1200), 1200 - 512)
    eq(connections_with(binary, 2400, '--set', 'client.connections_max=400'), 2400 - 512)     # it has no client
    eq(connections_with(binary, 2400, *origin, '--set', 'client.connections_max=400'), 2400 // 2)
    eq(connections_with(binary, 4000, *origin, '--set', 'client.connections_max=400'), 4000 - 512 - 2 * 400)
    eq(connections_with(binary, 1400, *origin, '--set', 'http.connections_max=800'), 1400 - 512 - 2 * 64)
    eq(connections_with(binary, 400, '--set', 'http.connections_max=100'), 100)
    eq(connections_with(binary, 220), 220 - 128)
    eq(connections_with(binary, 1500, *origin, '--set', 'http.connections_max=800'), None)


@scene
def what_servers_ask_each_other_with_is_looked_at(binary):
    with tempfile.TemporaryDirectory() as folder:
        short, fine = pathlib.Path(folder) / 'short', pathlib.Path(folder) / 'fine'
        short.write_text('fifteen bytes..')
        fine.write_text('sixteen bytes...')
        origin = {'domains.localhost.origin.url': 'http://127.0.0.1:1/w/rest.php'}
        right = {'redis.url': 'redis://127.0.0.1:1', 'servers.advertise': 'http://127.0.0.1:1',
                 'servers.secret_file': str(fine), **origin}
        for name, value, why in (('servers.secret_file', '', 'wants servers.secret_file'),
                                 ('servers.secret_file', str(short), 'less than 16 bytes'),
                                 ('servers.secret_file', folder + '/none', 'cannot be read'),
                                 ('servers.advertise', '', 'is wanted beside'),
                                 ('servers.advertise', 'http://127.0.0.1:1/path', 'is no address'),
                                 ('servers.advertise', '127.0.0.1:1', 'is no address'),
                                 ('redis.url', '', 'wants redis.url')):
            options = {**right, name: value}
            done = run(binary, 'serve', '--data', folder + '/data', '--listen', '127.0.0.1:0',
                       *(arg for pair in options.items() if pair[1] for arg in ('--set', '='.join(pair))))
            eq((done.returncode, why in done.stderr), (2, True), f'{name}={value}: {done.stderr}')


@scene
def help_and_the_manual_come_from_the_table(binary):
    done = run(binary, 'serve', '--help')
    eq(done.returncode, 0)
    for what in ('page.grace_ttl', 'drain_timeout', '--test-hooks', 'http.connections_max'):
        check(what in done.stdout, what)
    table = run(binary, 'options', '--markdown').stdout
    manual = DOCS.joinpath('reference/options.md').read_text()
    for row in table.splitlines():
        check(row in manual, f'docs/reference/options.md lacks: {row}')
    rows = [line for line in manual.splitlines() if line.startswith('| `')]
    eq(sorted(rows), sorted(line for line in table.splitlines() if line.startswith('| `')))


@scene
def verbs_and_routes_of_the_reference_are_those_of_the_binary(binary):
    """docs/reference is made from the sources: the program itself must say the same."""
    verbs = DOCS.joinpath('reference/verbs.md').read_text()
    for line in run(binary, 'help').stdout.splitlines():
        verb = re.match(r'  ([a-z][a-z -]*?)  +(\S.*)', line)
        if verb:
            name, summary = verb.groups()
            check(re.search(rf'^\| `{name}( [^|]*)?(\\\|[^|]*)*` \| {re.escape(summary[0].upper() + summary[1:])}\. \|$', verbs, re.M), line)
            done = run(binary, 'help', *name.split())
            for option in re.findall(r'^  (?:-\w, |    )(--[a-z-]+)', done.stdout, re.M):
                check(option == '--help' or f'`{option}' in verbs, f'{name} {option}')
    for code, meaning in re.findall(r'^  (\d)  (\S.*)$', run(binary, 'help').stdout, re.M):
        check(re.search(rf'^\| {code} \| `\w+` \| {meaning[0].upper()}{re.escape(meaning[1:])}\. \|$', verbs, re.M), meaning)
    rows = re.findall(r'^\| `([A-Z]+) (/\S*)` \| `(\S+)` \| (?:`(\S+)`)? \|', DOCS.joinpath('reference/routes.md').read_text(), re.M)
    want = {(method, re.sub(r'\[[^]]*\]+', '', path), name) for method, path, name, _ in rows}
    with Server(binary, '--test-hooks') as server:
        paths = json.loads(server.request('GET', '/?spec').body)['paths']
    there = {(method.upper(), path, *one['tags']) for path, methods in paths.items() for method, one in methods.items()
             if method != 'parameters'}
    check(want - there <= {row for row in want if row[0] == 'PURGE'}, str(want - there))
    eq({name for _, _, name in there} - {name for _, _, name in want}, set())


@scene
def every_metric_of_the_manual_is_there(binary):
    reference = DOCS.joinpath('reference/metrics.md').read_text()
    listed = set(re.findall(r'^\| `(palimpsest_[a-z0-9_]+)`', reference, re.M))
    manual = ''.join(path.read_text() for path in DOCS.glob('*.md') if path.name != 'verification.md')
    named = {re.sub(r'_(bucket|sum|count)$', '', name) if name not in listed else name
             for name in re.findall(r'`(palimpsest_[a-z0-9_]+)', manual)}
    eq(named - listed, set(), 'the documents name a metric that docs/reference/metrics.md lacks')
    check(len(named) > 5, str(named))
    with tempfile.NamedTemporaryFile('w') as secret:
        secret.write('a secret of all servers')
        secret.flush()
        never_there = ('redis.url=redis://127.0.0.1:1', 'lists.a.generator=http://127.0.0.1:1/a',
                       'servers.advertise=http://127.0.0.1:1', f'servers.secret_file={secret.name}',
                       'domains.localhost.origin.kind=parsoid',
                       'domains.localhost.origin.url=http://127.0.0.1:1/w/rest.php')
        server = Server(binary, *(arg for option in never_there for arg in ('--set', option)))
    with server:
        there = server.request('GET', '/metrics').body.decode()
    no_cluster = ('store.kind=cassandra', 'store.contact_points=127.0.0.1:1', 'store.local_dc=a',
                  'store.keyspace=a', 'store.start_timeout=1ms', 'page.secondary.contact_points=127.0.0.1:1',
                  'page.secondary.local_dc=a', 'page.secondary.keyspaces=a')
    with Server(binary, *(arg for option in no_cluster for arg in ('--set', option))) as server:
        there += server.request('GET', '/metrics').body.decode()
    for name in sorted(named):
        check(f'# TYPE {name} ' in there, name)
    for name, kind in re.findall(r'^# TYPE (\S+) (\S+)$', there, re.M):
        check(re.search(rf'^\| `{name}` \| {kind} \|', reference, re.M), f'{name} {kind}')
    for name, help_text in re.findall(r'^# HELP (\S+) (.*)$', there, re.M):
        check(help_text.replace('|', '\\|') in reference, f'{name}: {help_text}')


main()
