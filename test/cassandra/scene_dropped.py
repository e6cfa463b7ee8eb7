"""Goal: a server whose tables are dropped under it says so, and one whose keyspace is another one
never writes there with what it remembers of the first. Method: the real binary on a keyspace that
another client drops and makes again."""
import json

from rig import check, eq, main, scene, wait_until

from cli import Client
from served import DOMAIN, PAGE, applied, fails, options, policy, schema, serve


def ready(server):
    status, _, said = server.json('GET', '/readyz')
    return status, said


def unready(server, cause):
    """Until it says so. Before, the cluster may just fail to answer."""
    def told():
        status, said = ready(server)
        return status == 503 and said['type'].endswith(f'/{cause}')
    wait_until(told, cause)


def refused(server, cause):
    """Every kind of request is 503 and says why."""
    for method, path, body in (('GET', f'{PAGE}/html/T', None), ('PUT', f'{PAGE}/html/T/9', b'x'),
                               ('GET', f'{PAGE}/title/', None), ('DELETE', f'{PAGE}/all/T', None)):
        status, headers, said = server.json(method, path, body=body)
        eq((status, said['type'].rpartition('/')[2]), (503, cause), f'{method} {path}: {said}')
        check(int(headers['retry-after']) >= 1, headers)


@scene
def a_dropped_table_is_named_and_made_again_on_demand(binary):
    cluster = applied(binary, 'dropped')
    with serve(binary, cluster, 'dropped') as a:
        eq(a.request('PUT', f'{PAGE}/html/T/1', body=b'1').status, 201)
        cluster.execute('DROP TABLE dropped.body')
        unready(a, 'schema_missing')
        status, said = ready(a)
        check('body' in said['detail'] and 'store schema' in said['detail'], said)
        eq(status, 503)
        refused(a, 'schema_missing')
        check('cluster.lacks' in a.stderr(), a.stderr())
        for words in (('--look',), ()):
            looked = schema(binary, cluster, 'dropped', *words)
            eq((looked.returncode, looked.stdout), (6, 'dropped: version 1\n'), looked.stderr)
            check('table body' in looked.stderr and '--make-missing' in looked.stderr, looked.stderr)
        told = json.loads(schema(binary, cluster, 'dropped', '--look', '--json').stdout)
        eq(told['missing'], 'table body')
        code, why = fails(binary, *options(cluster, 'dropped'))
        eq((code, 'table body' in why), (2, True), why)
        eq(policy(binary, cluster, 'dropped', 'show').returncode, 6)
        made = schema(binary, cluster, 'dropped', '--make-missing')
        eq(made.returncode, 0, made.stderr)
        check('rows are gone' in made.stderr, made.stderr)
        eq(a.wait_exit(), 1)
        check('cluster.strange' in a.stderr() and 'serve.lost' in a.stderr(), a.stderr())
        a.start()
        eq(a.request('GET', f'{PAGE}/html/T').status in (404, 503), True)
        eq(a.request('PUT', f'{PAGE}/html/T/2', body=b'2').status, 201)
        eq(a.request('GET', f'{PAGE}/html/T').body, b'2')
    eq(schema(binary, cluster, 'dropped', '--look').returncode, 0)


@scene
def a_dropped_column_is_named_and_made_again(binary):
    cluster = applied(binary, 'onecolumn')
    with serve(binary, cluster, 'onecolumn') as a:
        cluster.execute('ALTER TABLE onecolumn.note DROP bytes')
        unready(a, 'schema_missing')
        check('note.bytes' in ready(a)[1]['detail'], ready(a))
        eq(schema(binary, cluster, 'onecolumn').returncode, 6)
        eq(schema(binary, cluster, 'onecolumn', '--make-missing').returncode, 0)
        wait_until(lambda: ready(a)[0] == 200, 'the table is the same: it goes on')
        eq(a.request('PUT', f'{PAGE}/html/T/1', body=b'1').status, 201)


@scene
def a_keyspace_that_was_made_again_ends_the_server(binary):
    cluster = applied(binary, 'remade')
    with serve(binary, cluster, 'remade') as a:
        eq(a.request('PUT', f'{PAGE}/html/T/1', body=b'1').status, 201)
        cluster.execute('DROP KEYSPACE remade')
        unready(a, 'schema_missing')
        refused(a, 'schema_missing')
        eq(schema(binary, cluster, 'remade').returncode, 0)
        eq(a.wait_exit(), 1)
        code, why = fails(binary, *options(cluster, 'remade'))
        eq((code, 'policy apply' in why), (2, True), why)
        with serve(binary, cluster, 'remade') as b:
            eq(b.request('GET', f'{PAGE}/html/T').status, 404)
            eq(b.request('PUT', f'{PAGE}/html/T/1', body=b'1').status, 201)


@scene
def lost_numbers_of_servers_end_the_server(binary):
    cluster = applied(binary, 'numbers')
    with serve(binary, cluster, 'numbers') as a, serve(binary, cluster, 'numbers') as b:
        cluster.execute("UPDATE numbers.meta SET value = '1 x' WHERE key = 'server'")
        eq(b.wait_exit(), 1)
        eq(ready(a)[0], 200)
        cluster.execute("DELETE FROM numbers.meta WHERE key = 'server'")
        eq(a.wait_exit(), 1)


@scene
def another_schema_of_the_cluster_disturbs_nobody(binary):
    cluster = applied(binary, 'beside')
    with serve(binary, cluster, 'beside') as a:
        cluster.execute('CREATE TABLE beside.own (a int PRIMARY KEY)')
        cluster.execute('DROP TABLE beside.own')
        eq(ready(a)[0], 200)
        eq(a.request('GET', f'/{DOMAIN}/v1/page/html/T').status, 404)


@scene
def check_and_backup_say_what_they_leave_out(binary):
    cluster = applied(binary, 'covers')
    with serve(binary, cluster, 'covers') as a:
        client = Client(binary, a)
        for words in (('check',), ('backup', str(a.folder / 'copy'))):
            done = client(*words)
            check('not covered: pages, values, keys' in done.stdout.decode(), done.stdout)
        eq(client.json('check')[0]['not_covered'], ['pages', 'values', 'keys'])


@scene
def values_of_two_servers_have_one_policy(binary):
    cluster = applied(binary, 'valued')
    mine = ('buckets.s.kind=key_value', 'buckets.s.ttl=1h')
    with serve(binary, cluster, 'valued', *mine) as a:
        eq(a.request('PUT', f'/{DOMAIN}/v1/key_value/s/k', body=b'1').status, 201)
        code, why = fails(binary, *options(cluster, 'valued', 'buckets.s.kind=key_value',
                                           'buckets.s.ttl=2h'))
        eq((code, '.key_value.s' in why and 'policy apply' in why), (2, True), why)
        shown = policy(binary, cluster, 'valued', 'show', *mine)
        eq(shown.returncode, 0, shown.stdout + shown.stderr)
        check('.key_value.s' in shown.stdout and 'ttl 1h' in shown.stdout, shown.stdout)
        text = a.request('GET', '/metrics').body.decode()
        for name in ('cluster_whole 1', 'cluster_sweep_total{what="ranges"}',
                     'cluster_sweep_ranges_never', 'cluster_due_total{what="filed"}'):
            check(f'palimpsest_{name}' in text, name)


main()
