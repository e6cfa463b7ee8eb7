"""Goal: buckets of values answer RESTBase's clients on a shared store as on the embedded one, and
are one store for all servers. Method: the scenes of test/scene/scene_value.py, each on a keyspace
of its own; and two servers of one keyspace, which are killed and asked in turn."""
import concurrent.futures
import importlib
import itertools

from rig import check, eq, main, scene, wait_until

import harness
from harness import Server
import shared_store
from page_help import START
from proxy import Proxy
from served import DOMAIN, applied, options, policy, serve

KV = f'/{DOMAIN}/v1/key_value'
KRV = f'/{DOMAIN}/v1/key_rev_value'

# It goes on to tables, which a shared store lacks.
NOT_SHARED = ('what_restbase_itself_sends_is_taken',)
_space = itertools.count()


def on_a_shared_store(module, function):
    """A scene of that module, whose servers are on Cassandra."""
    def run(binary):
        space = f'values{next(_space)}'
        cluster = applied(binary, space)
        def page_server(binary, *args, **named):
            words = [*map(str, args), *options(cluster, space)]
            shared_store.policies(binary, words)
            return Server(binary, *words, test_hooks=START, **named)
        module.page_server = page_server
        function(binary)
    run.__name__ = function.__name__
    return run


def scenes_of(name):
    """A module of test/scene, and the scenes in it, which are not run."""
    found = []
    kept = harness.scene, harness.main
    harness.scene, harness.main = found.append, lambda *_: None
    try:
        return importlib.import_module(name), found
    finally:
        harness.scene, harness.main = kept


MODULE, SCENES = scenes_of('scene_value')
for each in SCENES:
    if each.__name__ not in NOT_SHARED:
        scene(on_a_shared_store(MODULE, each))


@scene
def what_one_server_stores_the_other_answers(binary):
    cluster = applied(binary, 'values_two')
    with serve(binary, cluster, 'values_two') as a, serve(binary, cluster, 'values_two') as b:
        eq(a.request('PUT', KV + '/b').status, 201)
        eq(a.request('PUT', KV + '/b/k', body=b'1').status, 201)
        eq(b.request('GET', KV + '/b/k').body, b'1')
        eq(b.request('PUT', KV + '/b/k', body=b'2').status, 201)
        eq(a.request('GET', KV + '/b/k').body, b'2')
        big = bytes(range(256)) * (10 << 10)
        eq(b.request('PUT', KV + '/b/big', body=big).status, 201)
        eq(a.request('GET', KV + '/b/big').body, big)
        b.kill9()
        eq(a.request('DELETE', KV + '/b/k').status, 204)
        b.start()
        eq(b.request('GET', KV + '/b/k').status, 404)
        eq(a.request('DELETE', KV + '/b').status, 204)
        eq(b.request('GET', KV + '/b/big').status, 404)
        eq(b.request('PUT', KV + '/b/big', body=b'x').status, 404)


@scene
def of_servers_that_create_a_value_one_does(binary):
    cluster = applied(binary, 'values_race')
    with serve(binary, cluster, 'values_race') as a, serve(binary, cluster, 'values_race') as b:
        eq(a.request('PUT', KRV + '/b').status, 201)
        for rev in range(1, 6):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(server.request, 'PUT', f'{KRV}/b/k/{rev}',
                                     {'If-None-Match': '*'}, b'%d' % i)
                         for i, server in enumerate((a, b, a, b))]
                said = [one.result().status for one in asked]
            eq(sorted(said), [201, 412, 412, 412], rev)
            check(b.request('GET', f'{KRV}/b/k/{rev}').body == b'%d' % said.index(201), rev)


# (what fails, the request of a client, whether it may be written)
FAILURES = (
    ('FROM .*value_key ', ('GET', KV + '/b/'), False),
    (r'SELECT .*\.value ', ('GET', KV + '/b/k'), False),
    (r'SELECT .*\.value ', ('PUT', KV + '/b/k'), False),
    (r'SELECT .*\.value ', ('DELETE', KV + '/b/k'), False),
    (r'UPDATE .*\.value .* IF ', ('PUT', KV + '/b/k'), True),
    (r'FROM .*\.decide ', ('PUT', KV + '/c'), False),
    (r'UPDATE .*\.decide .* IF ', ('PUT', KV + '/c'), True),
)


def fault(proxy, text, cuts, unknown):
    """Whatever asks this of the node is cut off, or is answered with an error."""
    if cuts:
        return proxy.cut_at(text=text, times=None, reset=True, answer=False,
                            opcode=('EXECUTE', 'BATCH', 'QUERY'))
    return proxy.error('WRITE_TIMEOUT' if unknown else 'READ_FAILURE', text=text, times=None)


def fails(server, asked, what, rule, unknown):
    """Until a request has reached the fault: those before find no node connected."""
    method, path = asked
    sent = b'2' if method == 'PUT' and path.endswith('k') else None

    def reached():
        before = rule.hits
        status, headers, body = server.json(method, path, body=sent)
        eq(status, 503, f'{what}: {body}')
        check('127.0.0.1' not in str(body), f'{what}: {body}')
        check('retry-after' in headers, f'{what}: {headers}')
        return rule.hits > before and ('may' in body['detail']) == unknown
    wait_until(reached, what)


@scene
def what_the_cluster_fails_is_503_and_names_no_node(binary):
    cluster = applied(binary, 'values_failed')
    with Proxy(cluster.address(1), cluster.port) as proxy:
        points = f'{proxy.host}:{proxy.port}'
        said = policy(binary, cluster, 'values_failed', 'apply')
        eq(said.returncode, 0, said.stderr)
        with Server(binary, '--domain', DOMAIN,
                    *options(cluster, 'values_failed', 'value.listing=true', 'write_timeout=3s',
                             points=points)) as server:
            eq(server.request('PUT', KV + '/b').status, 201)
            eq(server.request('PUT', KV + '/b/k', body=b'1').status, 201)
            for text, (method, path), unknown in FAILURES:
                for cuts in (True, False):
                    fails(server, (method, path), f'{method} {path}: {text} {cuts}',
                          fault(proxy, text, cuts, unknown), unknown)
                    proxy.clear()
                    wait_until(lambda: server.request('GET', KV + '/b/k').status == 200, 'well')



main()
