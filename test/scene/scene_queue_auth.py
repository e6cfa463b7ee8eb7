"""Goal: who may do what to queues, in their namespaces, with keys; and that with open doors nobody is asked. Method: a
server with checks; keys made through the calls themselves while the door is open."""
from harness import Server, check, eq, main, scene, wait_until
from queue_help import BOTH, call, create, fine, queue_server, refused

ALL = ['queue.create', 'queue.update', 'queue.delete', 'queue.list', 'queue.produce', 'queue.lease', 'queue.complete',
       'queue.retry', 'queue.stats', 'queue.clear']


def key_of(server, name, space, permissions, headers=None, scope=''):
    """A key of a new user with one role in that namespace."""
    user = fine(server, '/v1/users.create', {'username': name}, headers=headers)['id']
    fine(server, '/v1/roles.create', {'namespace': space, 'name': name, 'permissions': permissions}, headers=headers)
    fine(server, '/v1/rolebindings.create', {'namespace': space, 'role_name': name, 'user_id': user}, headers=headers)
    return fine(server, '/v1/apikeys.create', {'user_id': user, 'name': name, 'namespace_scope': scope}, headers=headers)['key']


def bearer(key):
    return {'Authorization': f'Bearer {key}'}


def closed_server(binary):
    """(server, an admin's headers): no door is open."""
    server = queue_server(binary, '--set', 'auth=internal')
    admin = key_of(server, 'boss', '_system', ALL)
    root = fine(server, '/v1/users.create', {'username': 'root'})['id']
    fine(server, '/v1/rolebindings.create', {'namespace': '_system', 'role_name': 'Admin', 'user_id': root})
    root_key = fine(server, '/v1/apikeys.create', {'user_id': root, 'name': 'root'})['key']
    fine(server, '/v1/namespaces.create', {'name': 'team'}, headers=bearer(root_key))
    fine(server, '/v1/rolebindings.delete', {'namespace': '_system', 'role_name': 'Admin', 'user_id': 'anonymous'},
         headers=bearer(root_key))
    return server, bearer(admin), bearer(root_key)


CALLS = {
    '/v1/queue.produce': ('queue.produce', {'items': [{}], 'request_timeout': '1m'}),
    '/v1/queue.lease': ('queue.lease', {'batch_size': 1, 'client_id': 'c', 'request_timeout': '1m'}),
    '/v1/queue.complete': ('queue.complete', {'ids': ['x'], 'request_timeout': '1m'}),
    '/v1/queue.retry': ('queue.retry', {'items': [{'id': 'x'}]}),
    '/v1/queue.stats': ('queue.stats', {}),
    '/v1/queue.clear': ('queue.clear', {'queue': True}),
    '/v1/queues.update': ('queue.update', {}),
    '/v1/queues.info': ('queue.stats', {}),
    '/v1/storage/items.list': ('queue.stats', {}),
    '/v1/storage/scheduled.list': ('queue.stats', {}),
    '/v1/storage/items.import': ('queue.produce', {'items': [{}]}),
    '/v1/storage/items.delete': ('queue.clear', {'ids': ['x']}),
    '/v1/lease.take': ('queue.lease', {'batch_size': 1, 'client_id': 'd', 'request_timeout': '1m'}),
    '/v1/lease.complete': ('queue.complete', {'items': [{'id': 'x', 'token': '1'}], 'request_timeout': '1m'}),
    '/v1/lease.retry': ('queue.retry', {'items': [{'id': 'x', 'token': '1'}], 'request_timeout': '1m'}),
    '/v1/lease.extend': ('queue.lease', {'items': [{'id': 'x', 'token': '1'}], 'request_timeout': '1m'}),
    '/v1/queue.peek': ('queue.stats', {}),
    '/v1/queue.why': ('queue.stats', {}),
    '/v1/partitions.list': ('queue.stats', {}),
    '/v1/partitions.add': ('queue.update', {}),
    '/v1/partitions.rebalance': ('queue.update', {}),
}


@scene
def each_call_asks_for_its_permission_in_the_queues_namespace(binary):
    server, admin, root = closed_server(binary)
    with server:
        create(server, 'q', headers=admin, namespace='team')
        for path, (permission, body) in CALLS.items():
            name = path.replace('/', '-').strip('-')
            others = [one for one in ALL if one != permission]
            without = key_of(server, f'not-{name}', 'team', others, root)
            having = key_of(server, f'has-{name}', 'team', [permission], root)
            request = {'queue_name': 'q', **body}
            for wire in BOTH:
                refused(server, path, request, 403, 'access denied', wire, bearer(without))
                got = call(server, path, request, wire, bearer(having))
                check(got.status not in (401, 403), f'{path}: {got.body}')
            refused(server, path, request, 403, 'access denied')


@scene
def who_may_nowhere_is_not_told_which_queues_there_are(binary):
    server, admin, root = closed_server(binary)
    with server:
        create(server, 'q', headers=admin, namespace='team')
        other = bearer(key_of(server, 'other', 'team', ['queue.create'], root))
        for path, (_, body) in CALLS.items():
            for name in ('q', 'none'):
                refused(server, path, {'queue_name': name, **body}, 403, 'access denied', headers=other)
        refused(server, '/v1/queues.delete', {'queue_name': 'none'}, 403, 'access denied', headers=other)
        stats = bearer(key_of(server, 'stats', 'team', ['queue.stats', 'queue.retry'], root, scope='team'))
        missing = "queue does not exist; no such queue named 'none'"
        refused(server, '/v1/queue.stats', {'queue_name': 'none'}, 400, missing, headers=stats)
        for to in ('q', 'none'):
            refused(server, '/v1/queue.requeue', {'queue_name': 'q', 'to': to}, 403, 'access denied', headers=stats)
        refused(server, '/v1/queue.requeue', {'queue_name': 'q', 'to': 'none'}, 400, missing, headers=admin)


@scene
def lists_and_creation_are_asked_in_their_namespace(binary):
    server, admin, root = closed_server(binary)
    with server:
        team = bearer(key_of(server, 'team-only', 'team', ALL, root, scope='team'))
        create(server, 'a', headers=admin)
        create(server, 'b', headers=team, namespace='team')
        info = {'queue_name': 'c', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}
        refused(server, '/v1/queues.create', info, 403, 'access denied', headers=team)
        refused(server, '/v1/queues.list', {}, 403, 'access denied', headers=team)
        for headers, space, want in ((team, 'team', ['b']), (admin, 'team', ['b']), (admin, '', ['a'])):
            got = fine(server, '/v1/queues.list', {'namespace': space}, headers=headers)
            eq([queue['queue_name'] for queue in got['items']], want)
        refused(server, '/v1/queue.stats', {'queue_name': 'a'}, 403, 'access denied', headers=team)
        refused(server, '/v1/queue.stats', {'queue_name': 'none'}, 400, "queue does not exist; no such queue named 'none'",
                headers=team)


@scene
def keys_are_looked_at_before_the_body(binary):
    server, _, root = closed_server(binary)
    with server:
        gone = key_of(server, 'gone', 'team', ALL, root)
        for headers, why in (({'Authorization': 'Basic eA=='}, 'invalid authorization header format'),
                             (bearer('nonsense'), 'api key is invalid'),
                             (bearer('qtr-live-' + 'A' * 43), 'api key does not exist')):
            for path in ('/v1/queue.produce', '/v1/queues.list'):
                got = server.json('POST', path, headers, b'{not json')
                eq((got.status, got.body['message']), (401, why))
        got = server.json('POST', '/v1/queue.produce', bearer(gone), b'{not json')
        eq(got.status, 455)


@scene
def with_open_doors_nobody_is_asked(binary):
    with Server(binary) as server:
        create(server, 'q')
        got = call(server, '/v1/queue.stats', {'queue_name': 'q'}, headers=bearer('whatever'))
        eq(got.status, 200)


@scene
def a_dead_queue_is_of_the_same_namespace(binary):
    """Else who may not see a queue writes into it, and who takes a name that is free gets what others lost."""
    server, _, root = closed_server(binary)
    with server:
        own = bearer(key_of(server, 'own', 'team', ALL, root))
        fine(server, '/v1/namespaces.create', {'name': 'other'}, headers=root)
        other = bearer(key_of(server, 'other', 'other', ALL, root))
        create(server, 'theirs', headers=other, namespace='other')
        create(server, 'dead', headers=own, namespace='team')
        create(server, 'q', headers=own, namespace='team', dead_queue='dead')
        for name in ('theirs', 'nobodys'):
            wanted = f"dead_queue does not exist; '{name}' was not found, create it first"
            refused(server, '/v1/queues.update', {'queue_name': 'q', 'dead_queue': name}, 400, wanted, headers=own)
            refused(server, '/v1/queues.create',
                    {'queue_name': 'q2', 'namespace': 'team', 'dead_queue': name, 'lease_timeout': '1m',
                     'expire_timeout': '1h', 'requested_partitions': 1}, 400, wanted, headers=own)
        fine(server, '/v1/queues.delete', {'queue_name': 'dead'}, headers=own)
        create(server, 'dead', headers=other, namespace='other')
        fine(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': '1m', 'items': [{'utf8': 'secret'}]},
             headers=own)
        leased = fine(server, '/v1/queue.lease', {'queue_name': 'q', 'request_timeout': '1m', 'batch_size': 1,
                                                  'client_id': 'c'}, headers=own)['items']
        fine(server, '/v1/queue.retry', {'queue_name': 'q', 'items': [{'id': leased[0]['id'], 'dead': True}]}, headers=own)
        wait_until(lambda: not fine(server, '/v1/storage/items.list', {'queue_name': 'q'}, headers=own).get('items'),
                   'it is gone')
        eq(fine(server, '/v1/queue.peek', {'queue_name': 'dead'}, headers=other).get('items', []), [])


main()
