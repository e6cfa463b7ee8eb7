"""Goal: what servers on one Cassandra must agree on is one thing: a policy comes into force on all of
them at an instant, a key made or revoked on one is so on all. Method: two servers on one keyspace;
the node is killed; options that differ."""
import json
import subprocess
import time

from rig import check, eq, main, scene, wait_until

from harness import Server
from proxy import Proxy
from served import DOMAIN, PAGE, SOON, applied, fails, options, policy, serve

INTERNAL = 'auth=internal'
AUTH_TTL = 5


def bearer(key):
    return {'authorization': f'Bearer {key}'}


def status(server, key=None, path='/html/T'):
    return server.request('GET', PAGE + path, bearer(key) if key else None).status


@scene
def options_that_differ_end_the_start_and_name_the_verb(binary):
    cluster = applied(binary, 'differ')
    code, said = fails(binary, *options(cluster, 'differ'))
    eq(code, 2, said)
    check('bucket page' in said and 'palimpsest policy apply' in said, said)
    shown = policy(binary, cluster, 'differ', 'show')
    eq(shown.returncode, 6, shown.stderr)
    check('in the options' in shown.stdout, shown.stdout)
    dry = policy(binary, cluster, 'differ', 'apply', words=('--dry-run',))
    eq(dry.returncode, 0, dry.stderr)
    check('would be' in dry.stdout, dry.stdout)
    eq(policy(binary, cluster, 'differ', 'show').returncode, 6)
    made = policy(binary, cluster, 'differ', 'apply')
    eq(made.returncode, 0, made.stderr)
    check('page\t1\twritten\tfrom the beginning\tapp_ttl, grace_ttl' in made.stdout, made.stdout)
    again = policy(binary, cluster, 'differ', 'apply')
    eq((again.returncode, again.stdout), (0, 'the catalogue has these policies already\n'))
    eq(policy(binary, cluster, 'differ', 'show').returncode, 0)
    code, said = fails(binary, *options(cluster, 'differ', 'page.grace_ttl=2d'))
    eq((code, 'palimpsest policy apply' in said), (2, True), said)
    wrong = policy(binary, cluster, 'differ', 'apply', 'page.policy=latest_hash')
    eq((wrong.returncode, 'bucket page' in wrong.stderr), (2, True), wrong.stderr)


@scene
def a_server_is_ready_when_it_knows_who_may_do_what(binary):
    cluster = applied(binary, 'knows')
    for _ in range(3):
        with serve(binary, cluster, 'knows', INTERNAL) as server:
            wait_until(lambda s=server: s.request('GET', '/readyz').status == 200, 'it is ready')
            eq(status(server), 404, 'the door is open')


@scene
def a_policy_that_comes_is_known_to_who_runs(binary):
    cluster = applied(binary, 'comes')
    with serve(binary, cluster, 'comes') as a:
        before = time.time()
        done = policy(binary, cluster, 'comes', 'apply', 'page.grace_ttl=2d', words=('--json',))
        eq(done.returncode, 0, done.stderr)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        eq([(x['state'], x['number']) for x in told if x['bucket'] == 'page'],
           [('was', 1), ('written', 2)])
        at = time.strptime(told[-1]['from'][:19], '%Y-%m-%dT%H:%M:%S')
        check(before + 55 < time.mktime(at) - time.timezone, f'a minute ahead: {told}')
        wait_until(lambda: ' policies.known ' in a.stderr(), 'it is known')
        eq(a.request('PUT', f'{PAGE}/html/T/1', body=b'x').status, 201)
        shown = policy(binary, cluster, 'comes', 'show', 'page.grace_ttl=2d')
        eq(shown.returncode, 0, shown.stderr)
        check('to come' in shown.stdout and 'in force' in shown.stdout, shown.stdout)
        with serve(binary, cluster, 'comes', 'page.grace_ttl=2d') as b:
            eq(b.request('GET', f'{PAGE}/html/T').body, b'x')


@scene
def a_key_is_that_of_all_servers(binary):
    cluster = applied(binary, 'keys')
    with serve(binary, cluster, 'keys', INTERNAL) as a, serve(binary, cluster, 'keys', INTERNAL) as b:
        wait_until(lambda: status(a) == 404 and status(b) == 404, 'the door is open')
        admin, reader = (a.json('POST', '/v1/admin.tokens', body={'roles': [role]}).body
                         for role in ('Admin', 'read'))
        eq(a.request('PUT', f'{PAGE}/html/T/1', bearer(admin['key']), body=b'x').status, 201)
        wait_until(lambda: status(b, reader['key']) == 200, 'the key opens b')
        eq(a.json('POST', '/v1/admin.door', bearer(admin['key']), {'open': False}).status, 200)
        eq(status(a), 401)
        wait_until(lambda: status(b) == 401, 'b has closed its door', timeout=AUTH_TTL)
        eq(status(b, reader['key']), 200)
        eq(b.request('DELETE', f'/v1/admin.tokens/{reader["id"]}', bearer(admin['key'])).status, 204)
        eq(status(b, reader['key']), 401)
        wait_until(lambda: status(a, reader['key']) == 401, 'a knows', timeout=AUTH_TTL)
        b.restart()
        wait_until(lambda: status(b, admin['key']) == 200, 'it is known behind a restart')
        eq(status(b), 401)


@scene
def without_the_node_no_key_is_good_for_long(binary):
    cluster = applied(binary, 'keysaway')
    with serve(binary, cluster, 'keysaway', INTERNAL, 'hot_ttl=1h') as a:
        wait_until(lambda: status(a) == 404, 'the door is open')
        admin = a.json('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body['key']
        eq(a.request('PUT', f'{PAGE}/html/T/1', bearer(admin), body=b'x').status, 201)
        eq(status(a, admin), 200)
        cluster.kill(1)
        wait_until(lambda: status(a, admin) == 503, 'no answer, ready or not', timeout=3 * AUTH_TTL)
        eq(status(a), 503)
        eq(status(a, 'qtr-live-nonsense'), 401)
        cluster.start(1)
        wait_until(lambda: status(a, admin) == 200, 'it is known again')


@scene
def a_server_that_starts_first_waits_with_its_keys(binary):
    cluster = applied(binary, 'keysearly')
    eq(policy(binary, cluster, 'keysearly', 'apply').returncode, 0)
    cluster.kill(1)
    words = options(cluster, 'keysearly', *SOON, INTERNAL, 'store.start_timeout=1s')
    with Server(binary, '--domain', DOMAIN, *words) as a:
        eq(status(a), 503)
        cluster.start(1)
        wait_until(lambda: status(a) == 404, 'the authority has begun')


@scene
def the_first_key_needs_no_server(binary):
    cluster = applied(binary, 'keysfirst')
    file = cluster.folder / 'keysfirst.yaml'
    file.write_text('store: {kind: cassandra, keyspace: keysfirst, local_dc: dc1, contact_points: '
                    f'"{cluster.address(1)}:{cluster.port}"}}\n')

    def token(*words):
        done = subprocess.run([binary, 'token', *words, '--config', str(file)], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        eq(done.returncode, 0, done.stderr)
        return done.stdout.strip()
    admin = token('create', '--role', 'Admin', '--name', 'root')
    token('lock')
    with serve(binary, cluster, 'keysfirst', INTERNAL) as a:
        wait_until(lambda: status(a, admin) == 404, 'the key is known')
        eq(status(a), 401)
        check('root' in token('ls'), 'it is listed')
        made = json.loads(token('create', '--role', 'read', '--json'))
        wait_until(lambda: status(a, made['key']) == 404, 'the server knows it')
        token('rm', made['id'])
        wait_until(lambda: status(a, made['key']) == 401, 'it is gone', timeout=AUTH_TTL)


@scene
def a_policy_whose_answer_is_lost_is_written_once(binary):
    cluster = applied(binary, 'lost')
    with Proxy(cluster.address(1), cluster.port) as proxy:
        point = f'{proxy.host}:{proxy.port}'
        request = {'answer': False, 'opcode': 'BATCH'}
        prepare = {'text': 'SET gen ='}
        answer = {**prepare, 'after': 1}        # the first one is that of its PREPARE
        for n, lose in enumerate((
                lambda: proxy.swallow(**answer), lambda: proxy.swallow(**request),
                lambda: proxy.cut_at(**answer), lambda: proxy.cut_at(**request),
                lambda: proxy.swallow(**prepare),
                lambda: proxy.error('WRITE_TIMEOUT', executed=True, fields={
                    'consistency': 'SERIAL', 'write_type': 'CAS'}, **answer)), 1):
            rule = lose()
            done = subprocess.run(
                [binary, 'policy', 'apply', '--json',
                 *options(cluster, 'lost', f'page.grace_ttl={n}d', points=point)],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            eq(done.returncode, 0, done.stderr)
            eq(rule.hits, 1)
            shown = policy(binary, cluster, 'lost', 'show', f'page.grace_ttl={n}d',
                           words=('--json',))
            eq(shown.returncode, 0, shown.stderr)
            eq([json.loads(line)['number'] for line in shown.stdout.splitlines()],
               list(range(1, n + 1)))


main()
