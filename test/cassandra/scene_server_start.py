"""Goal: a server on Cassandra starts only where it can keep its word, and says by name what is in
its way; `palimpsest store schema` makes what is missing. Method: starts that fail, one for each
reason."""
import json

from rig import Cluster, check, eq, main, node, scene, wait_until

from served import DOMAIN, PAGE, applied, fails, options, schema, serve


@scene
def without_tables_the_start_names_the_verb_that_makes_them(binary):
    cluster = node()
    cluster.execute('DROP KEYSPACE IF EXISTS bare')
    code, said = fails(binary, *options(cluster, 'bare'))
    eq(code, 2, said)
    check('palimpsest store schema' in said, said)
    looked = schema(binary, cluster, 'bare', '--look')
    eq((looked.returncode, looked.stdout), (6, 'bare: version 0\n'), looked.stderr)
    made = schema(binary, cluster, 'bare')
    eq((made.returncode, made.stdout), (0, 'bare: version 1, was 0\n'), made.stderr)
    again = schema(binary, cluster, 'bare', '--json')
    eq(json.loads(again.stdout), {'keyspace': 'bare', 'before': 1, 'version': 1, 'known': 1})
    with serve(binary, cluster, 'bare') as server:
        eq(server.request('PUT', f'{PAGE}/html/T/1', body=b'x').status, 201)


@scene
def tables_of_another_version_are_refused(binary):
    cluster = applied(binary, 'newer')
    cluster.execute("UPDATE newer.meta SET value = '7' WHERE key = 'schema'")
    code, said = fails(binary, *options(cluster, 'newer'))
    eq(code, 2, said)
    check('version 7' in said and 'newer program' in said, said)
    done = schema(binary, cluster, 'newer')
    eq((done.returncode, done.stdout), (6, ''), done.stderr)


@scene
def what_servers_cannot_share_is_refused_by_name(binary):
    cluster = node()
    for option, why in (
            ('store.local_dc=', 'store.local_dc'), ('store.contact_points=', 'store.contact_points'),
            ('change.streams=palimpsest.render', 'change.streams'),
            ('page.policy=latest_hash', 'bucket page'), ('page.grace_ttl=1s', 'bucket page'),
            ('store.keyspace=Wrong-Name', 'keyspace'), ('store.replication=dc1', 'store.replication'),
            ('store.auth.user=u', 'store.auth.password_file'),
            ('store.tls.ca_file=/none', 'store.tls.mode')):
        code, said = fails(binary, *options(cluster, 'refused', option))
        eq((code, why in said), (2, True), f'{option}: {said}')
    code, said = fails(binary, '--set', 'store.local_dc=dc1')
    eq((code, 'store.kind' in said), (2, True), said)


@scene
def routes_of_one_server_are_not_there(binary):
    cluster = applied(binary, 'routes')
    with serve(binary, cluster, 'routes') as server:
        for method, path in (('GET', f'/{DOMAIN}/v1/table'), ('GET', '/v1/stream')):
            check(server.request(method, path).status in (400, 404), path)


@scene
def a_wrong_password_ends_the_start(binary):
    with Cluster(auth=True) as cluster:
        folder = cluster.folder
        for name, text in (('right', 'cassandra'), ('wrong', 'no')):
            (folder / name).write_text(text + '\n')
        login = ('store.auth.user=cassandra', f'store.auth.password_file={folder}/')

        def said(word):
            return (login[0], login[1] + word)
        code, why = fails(binary, *options(cluster, 'k', *said('wrong'), 'store.start_timeout=5s'))
        eq((code, 'store.auth' in why), (1, True), why)
        check('no\n' not in why.split('store.auth')[1], 'the password is in no line')
        code, why = fails(binary, *options(cluster, 'k', 'store.start_timeout=5s'))
        eq((code, 'store.auth' in why), (1, True), why)
        code, why = fails(binary, *options(cluster, 'k', *said('none')))
        eq((code, 'store.auth.password_file' in why), (2, True), why)
        wait_until(lambda: fails(binary, *options(cluster, 'k', *said('right')))[0] == 2,
                   'the user of the cluster is there, and no schema')


main()
