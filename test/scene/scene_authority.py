"""Goal: Querator's calls on namespaces, users, keys, roles and bindings answer as its tests pin them, in both
encodings, with checks on and off; what they give and take is in force at the next request, on content routes too.
Method: the real server over HTTP; tables of calls, codes and sentences.
"""
import datetime
import json
import re

from harness import Server, check, eq, main, scene

INTERNAL = ('--set', 'auth=internal')
PROTOBUF = 'application/protobuf'
KSUID = re.compile(r'[0-9A-Za-z]{27}\Z')
ALL = {
    'namespace.create', 'namespace.delete', 'namespace.list', 'namespace.update', 'queue.create', 'queue.delete',
    'queue.update', 'queue.list', 'queue.produce', 'queue.lease', 'queue.complete', 'queue.retry', 'queue.stats',
    'queue.clear', 'user.create', 'user.delete', 'user.list', 'apikey.create', 'apikey.delete', 'apikey.list',
    'role.create', 'role.update', 'role.delete', 'role.list', 'rolebinding.create', 'rolebinding.delete',
    'rolebinding.list', 'system.health', 'system.metrics'}
OWNER = {name for name in ALL if name.startswith(('queue.', 'role.', 'rolebinding.', 'system.'))}


def call(server, name, body, key=None, want=200, message=None):
    """The answer's JSON; message: a sentence, or its start when it ends in '...'."""
    headers = {'Authorization': f'Bearer {key}'} if key else {}
    status, got_headers, got = server.json('POST', f'/v1/{name}', headers, body)
    eq(status, want, f'{name} {body}: {got}')
    eq(got_headers['Content-Type'], 'application/json', name)
    if want != 200:
        eq(set(got), {'code', 'code_text', 'message'}, name)
        eq(got['code'], want, name)
    if message is not None and message.endswith('...'):
        check(got['message'].startswith(message[:-3]), f'{name}: {got["message"]}')
    elif message is not None:
        eq(got['message'], message, name)
    return got


def user_with(server, key, name, role=None, namespace='_system', **more):
    """(user id, key) of a new user with that role."""
    user = call(server, 'users.create', {'username': name}, key)['id']
    if role:
        call(server, 'rolebindings.create', {'namespace': namespace, 'role_name': role, 'user_id': user}, key)
    return user, call(server, 'apikeys.create', {'user_id': user, **more}, key)['key']


def admin_of(server):
    """An administrator's key, made through the open door."""
    return user_with(server, None, 'root', 'Admin')[1]


def instant(text):
    """Seconds of an RFC 3339 instant."""
    return datetime.datetime.fromisoformat(re.sub(r'\.\d+', '', text).replace('Z', '+00:00')).timestamp()


# ---- with everything open

@scene
def a_store_without_checks_has_its_system_namespace_alone(binary):
    with Server(binary) as server:
        eq([item['name'] for item in call(server, 'namespaces.list', {})['items']], ['_system'])
        eq(call(server, 'users.list', {}), {})
        eq(call(server, 'apikeys.list', {}), {})
        eq(call(server, 'roles.list', {}), {})
        eq(call(server, 'rolebindings.list', {}), {})
        server.restart()
        eq([item['name'] for item in call(server, 'namespaces.list', {})['items']], ['_system'])


@scene
def namespaces_come_change_and_go(binary):
    with Server(binary) as server:
        eq(call(server, 'namespaces.create', {'name': 'ns', 'description': 'Test namespace', 'api_key_tag': 'stg'}),
           {'code': 200})
        got = call(server, 'namespaces.list', {'pivot': 'ns', 'limit': 1})['items']
        created = got[0].pop('created_at')
        check(instant(created) > 0, created)
        eq(got, [{'name': 'ns', 'description': 'Test namespace', 'api_key_tag': 'stg'}])
        call(server, 'namespaces.update', {'name': 'ns', 'description': 'Other'})
        eq(call(server, 'namespaces.list', {'pivot': 'ns'})['items'],
           [{'name': 'ns', 'description': 'Other', 'created_at': created}])
        for body, message in (
                ({'name': ''}, 'namespace name is invalid; cannot be empty'),
                ({'name': '   '}, 'namespace name is invalid; cannot be empty'),
                ({'name': 'my namespace'}, "namespace name is invalid; 'my namespace' cannot contain whitespace"),
                ({'name': 'my~namespace'}, "namespace name is invalid; 'my~namespace' cannot contain '~' character"),
                ({'name': 'a:b'}, "namespace name is invalid; 'a:b' cannot contain ':' character"),
                ({'name': 'x' * 257}, "namespace name is invalid; cannot be greater than '256' characters"),
                ({'name': '_reserved'}, "namespace name is reserved; '_reserved' names starting with '_' are reserved"),
                ({'name': '*'}, "namespace name is reserved; '*' stands for all domains"),
                ({'name': 'a', 'api_key_tag': 'PROD'}, 'api_key_tag is invalid; must be lowercase alphanumeric only'),
                ({'name': 'a', 'api_key_tag': 'x' * 17},
                 'api_key_tag is invalid; cannot be greater than 16 characters')):
            call(server, 'namespaces.create', body, want=400, message=message)
        call(server, 'namespaces.create', {'name': 'ns'}, want=400,
             message="namespace already exists; 'ns' already exists")
        call(server, 'namespaces.update', {'name': 'none'}, want=453,
             message="namespace does not exist; 'none' was not found")
        call(server, 'namespaces.delete', {'name': '_system'}, want=400, message='namespace name is reserved; ...')
        call(server, 'namespaces.delete', {'name': ''}, want=400, message='namespace name is invalid; cannot be empty')
        eq(call(server, 'namespaces.delete', {'name': 'ns'}), {'code': 200})
        call(server, 'namespaces.delete', {'name': 'ns'}, want=453,
             message="namespace does not exist; 'ns' was not found")
        call(server, 'namespaces.create', {'name': 'x' * 256})
        call(server, 'namespaces.list', {'limit': -1}, want=400, message='limit is invalid; limit cannot be negative')
        call(server, 'namespaces.list', {'limit': 65537}, want=400,
             message='limit is invalid; cannot be greater than 65536')


@scene
def a_namespace_in_use_stays(binary):
    with Server(binary) as server:
        call(server, 'namespaces.create', {'name': 'ns'})
        call(server, 'roles.create', {'namespace': 'ns', 'name': 'worker', 'permissions': ['queue.list']})
        user, _ = user_with(server, None, 'somebody', 'worker', 'ns')
        call(server, 'namespaces.delete', {'name': 'ns'}, want=400,
             message="namespace has role bindings; 'ns' has role bindings, delete role bindings first")
        call(server, 'rolebindings.delete', {'namespace': 'ns', 'role_name': 'worker', 'user_id': user})
        call(server, 'namespaces.delete', {'name': 'ns'}, want=400,
             message="namespace has roles; 'ns' has roles, delete roles first")
        call(server, 'roles.delete', {'namespace': 'ns', 'name': 'worker'})
        queue = {'queue_name': 'q', 'namespace': 'ns', 'lease_timeout': '1m', 'expire_timeout': '1h',
                 'requested_partitions': 1}
        call(server, 'queues.create', queue)
        call(server, 'namespaces.delete', {'name': 'ns'}, want=400,
             message="namespace has queues; 'ns' has queues, delete queues first")
        call(server, 'queues.delete', {'queue_name': 'q'})
        call(server, 'namespaces.delete', {'name': 'ns'})
        call(server, 'queues.create', queue, want=453, message="namespace does not exist; 'ns' was not found")


@scene
def users_and_keys_go_with_what_is_theirs(binary):
    with Server(binary) as server:
        user = call(server, 'users.create', {'username': 'u', 'email': 'u@example.test', 'external_id': 'e'})['id']
        check(KSUID.match(user), user)
        got = call(server, 'users.list', {})['items']
        eq(got[0].pop('created_at'), got[0].pop('updated_at'))
        eq(got, [{'id': user, 'username': 'u', 'external_id': 'e', 'email': 'u@example.test'}])
        made = call(server, 'apikeys.create', {'user_id': user, 'name': 'k', 'namespace_scope': 'ns', 'key_tag': 'ci',
                                               'expires_at': '2100-01-02T03:04:05.5Z'})
        eq(set(made), {'id', 'key', 'prefix'})
        check(re.match(r'qtr-ci-[0-9A-Za-z]{43}\Z', made['key']), made['key'])
        eq(made['prefix'], made['key'][:15])
        got = call(server, 'apikeys.list', {})['items']
        check(instant(got[0].pop('created_at')) > 0, 'created_at')
        eq(got, [{'id': made['id'], 'user_id': user, 'namespace_scope': 'ns', 'name': 'k', 'prefix': made['prefix'],
                  'expires_at': '2100-01-02T03:04:05.500Z'}])
        eq(call(server, 'apikeys.list', {'user_id': user})['items'][0]['id'], made['id'])
        eq(call(server, 'apikeys.list', {'user_id': 'nobody'}), {})
        call(server, 'apikeys.delete', {'id': made['id']})
        call(server, 'apikeys.delete', {'id': made['id']}, want=401, message='api key does not exist')
        eq(call(server, 'users.list', {})['items'][0]['id'], user)
        for body, code, message in (
                ({}, 400, 'user_id is invalid; cannot be empty'),
                ({'user_id': 'none'}, 453, "user does not exist; 'none' was not found"),
                ({'user_id': user, 'key_tag': 'a b'}, 400, 'key_tag is invalid; must be lowercase alphanumeric only'),
                ({'user_id': user, 'key_tag': 'x' * 17}, 400,
                 'key_tag is invalid; cannot be greater than 16 characters')):
            call(server, 'apikeys.create', body, want=code, message=message)
        for body, message in (({}, 'username is invalid; cannot be empty'),
                              ({'username': 'x' * 129}, "username is invalid; cannot be greater than '128' characters"),
                              ({'username': 'u'}, "username is already taken; 'u' is already taken")):
            call(server, 'users.create', body, want=400, message=message)
        call(server, 'namespaces.create', {'name': 'ns'})
        call(server, 'roles.create', {'namespace': 'ns', 'name': 'worker'})
        call(server, 'rolebindings.create', {'namespace': 'ns', 'role_name': 'worker', 'user_id': user})
        call(server, 'apikeys.create', {'user_id': user})
        call(server, 'users.delete', {'id': user})
        eq(call(server, 'users.list', {}), {})
        eq(call(server, 'apikeys.list', {}), {})
        eq(call(server, 'rolebindings.list', {'namespace': 'ns'}), {})
        call(server, 'users.delete', {'id': user}, want=453, message=f"user does not exist; '{user}' was not found")


@scene
def roles_and_bindings_are_kept_apart_by_namespace(binary):
    with Server(binary) as server:
        call(server, 'namespaces.create', {'name': 'ns'})
        role = call(server, 'roles.create', {'namespace': 'ns', 'name': 'worker',
                                             'permissions': ['queue.list', 'page.read']})['id']
        check(KSUID.match(role), role)
        got = call(server, 'roles.list', {'namespace': 'ns'})['items']
        check(instant(got[0].pop('created_at')) > 0, 'created_at')
        eq(got, [{'id': role, 'namespace': 'ns', 'name': 'worker', 'permissions': ['queue.list', 'page.read']}])
        call(server, 'roles.update', {'namespace': 'ns', 'name': 'worker', 'permissions': ['queue.delete']})
        got = call(server, 'roles.list', {'namespace': 'ns'})['items']
        eq((got[0]['id'], got[0]['permissions']), (role, ['queue.delete']))
        user = call(server, 'users.create', {'username': 'u'})['id']
        other = call(server, 'users.create', {'username': 'v'})['id']
        bound = {'namespace': 'ns', 'role_name': 'worker', 'user_id': user}
        binding = call(server, 'rolebindings.create', bound)['id']
        call(server, 'rolebindings.create', {**bound, 'user_id': other})
        got = call(server, 'rolebindings.list', {'namespace': 'ns', 'user_id_filter': user})['items']
        check(instant(got[0].pop('created_at')) > 0, 'created_at')
        eq(got, [{'id': binding, 'namespace': 'ns', 'user_id': user, 'role_id': role}])
        eq(len(call(server, 'rolebindings.list', {'namespace': 'ns'})['items']), 2)
        eq(call(server, 'rolebindings.list', {}), {})
        call(server, 'rolebindings.create', bound, want=400,
             message=f"role binding already exists; binding for user '{user}' to role '{role}' in namespace 'ns' "
                     'already exists')
        call(server, 'roles.delete', {'namespace': 'ns', 'name': 'worker'}, want=400,
             message="role has active bindings; 'worker' has active bindings, delete bindings first")
        for body in (bound, {**bound, 'user_id': other}):
            call(server, 'rolebindings.delete', body)
        call(server, 'rolebindings.delete', bound, want=453,
             message=f"role binding does not exist; 'ns:{user}:{role}' was not found")
        call(server, 'roles.delete', {'namespace': 'ns', 'name': 'worker'})
        eq(call(server, 'roles.list', {'namespace': 'ns'}), {})


@scene
def roles_and_bindings_are_refused_in_words(binary):
    with Server(binary) as server:
        call(server, 'namespaces.create', {'name': 'ns'})
        user = call(server, 'users.create', {'username': 'u'})['id']
        fine = {'namespace': 'ns', 'name': 'x', 'permissions': ['queue.list']}
        for change, code, message in (
                ({'namespace': ''}, 400, 'namespace is invalid; cannot be empty'),
                ({'name': ''}, 400, 'name is invalid; cannot be empty'),
                ({'name': 'a:b'}, 400, "name is invalid; 'a:b' cannot contain ':' character"),
                ({'permissions': ['invalid.perm']}, 400,
                 "permission is invalid; 'invalid.perm' is not a recognized permission"),
                ({'name': 'Admin'}, 400, "cannot modify or delete standard role; 'Admin' is a standard role"),
                ({'name': 'read'}, 400, "cannot modify or delete standard role; 'read' is a standard role"),
                ({'name': 'Admin', 'namespace': 'none'}, 400, 'cannot modify or delete standard role; ...'),
                ({'namespace': 'none'}, 453, "namespace does not exist; 'none' was not found")):
            call(server, 'roles.create', {**fine, **change}, want=code, message=message)
        for name in ('roles.update', 'roles.delete'):
            body = {'namespace': 'ns', 'name': 'NamespaceOwner'}
            call(server, name, body, want=400, message='cannot modify or delete standard role; ...')
            call(server, name, {'namespace': 'ns', 'name': 'none'}, want=453,
                 message="role does not exist; 'ns:none' was not found")
        call(server, 'roles.create', fine)
        call(server, 'roles.create', fine, want=400, message="role already exists; 'ns:x' already exists")
        fine = {'namespace': 'ns', 'role_name': 'x', 'user_id': user}
        for change, code, message in (
                ({'namespace': ''}, 400, 'namespace is invalid; cannot be empty'),
                ({'role_name': ''}, 400, 'role_name is invalid; cannot be empty'),
                ({'user_id': ''}, 400, 'user_id is invalid; cannot be empty'),
                ({'user_id': 'a:b'}, 400, "user_id is invalid; 'a:b' cannot contain ':' character"),
                ({'role_name': 'none'}, 453, "role does not exist; 'ns:none' was not found"),
                ({'namespace': 'none'}, 453, "namespace does not exist; 'none' was not found"),
                ({'user_id': 'none'}, 453, "user does not exist; 'none' was not found")):
            call(server, 'rolebindings.create', {**fine, **change}, want=code, message=message)
        call(server, 'rolebindings.delete', {**fine, 'user_id': 'a:b'}, want=400, message='user_id is invalid; ...')


@scene
def lists_come_in_pages_that_begin_with_their_pivot(binary):
    with Server(binary) as server:
        call(server, 'namespaces.create', {'name': 'ns'})
        users = sorted(call(server, 'users.create', {'username': f'user{i}'})['id'] for i in range(12))
        call(server, 'roles.create', {'namespace': 'ns', 'name': 'worker'})
        for i, user in enumerate(users):
            call(server, 'roles.create', {'namespace': 'ns', 'name': f'role{i}'})
            call(server, 'rolebindings.create', {'namespace': 'ns', 'role_name': 'worker', 'user_id': user})
            call(server, 'apikeys.create', {'user_id': user})
        for name, more, count in (('users.list', {}, 12), ('apikeys.list', {}, 12),
                                  ('roles.list', {'namespace': 'ns'}, 13),
                                  ('rolebindings.list', {'namespace': 'ns'}, 12)):
            ids = [item['id'] for item in call(server, name, more)['items']]
            eq(len(ids), count, name)
            eq(ids, sorted(ids), name)
            eq([item['id'] for item in call(server, name, {**more, 'limit': 3})['items']], ids[:3], name)
            page = call(server, name, {**more, 'limit': 3, 'pivot': ids[2]})['items']
            eq([item['id'] for item in page], ids[2:5], name)
            page = call(server, name, {**more, 'pivot': ids[3][:20]})['items'] # need not exist
            eq([item['id'] for item in page], [found for found in ids if found >= ids[3][:20]], name)
            eq(call(server, name, {**more, 'pivot': 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzz'}), {}, name)
        eq([item['id'] for item in call(server, 'users.list', {})['items']], users)


@scene
def calls_are_posted_and_speak_both_encodings(binary):
    with Server(binary) as server:
        def field(number, text):
            return bytes([number << 3 | 2, len(text)]) + text
        send = {'Content-Type': PROTOBUF}
        status, headers, body = server.request('POST', '/v1/namespaces.create', {**send, 'Accept': PROTOBUF},
                                               field(1, b'ns') + field(2, b'words') + field(4, b'tag'))
        eq((status, headers['Content-Type'], body), (200, PROTOBUF, b'\x08\xc8\x01'))
        status, headers, body = server.request('POST', '/v1/namespaces.create', {**send, 'Accept': 'application/json'},
                                               field(1, b'ns'))
        eq((status, headers['Content-Type'], json.loads(body)['message']),
           (400, 'application/json', "namespace already exists; 'ns' already exists"))
        status, headers, body = server.request('POST', '/v1/namespaces.list', {**send, 'Accept': PROTOBUF},
                                               field(1, b'ns'))
        eq((status, headers['Content-Type']), (200, PROTOBUF))
        check(field(1, b'ns') + field(2, b'words') in body and field(4, b'tag') in body, repr(body))
        status, _, got = server.json('GET', '/v1/namespaces.list')
        eq((status, got['message']), (400, "http method 'GET' not allowed; only POST"))
        eq(server.json('POST', '/v1/namespaces.list', body={'unknown': 1}).status, 455)
        eq(server.json('POST', '/v1/namespaces.list', {'Content-Type': 'text/plain'}, b'{}').status, 455)
        eq(server.json('POST', '/v1/namespaces.list', body=b'').status, 455)
        eq(server.request('POST', '/v1/namespaces.list', send, b'').status, 200)
        status, _, got = server.json('POST', '/v1/users.create', body={'username': 'x' * 300000})
        eq((status, got['message'].startswith('request body exceeds')), (400, True), str(got))
        for header in ('Basic c29tZQ==', 'Bearer', 'Token x'):
            status, _, got = server.json('POST', '/v1/namespaces.list', {'Authorization': header}, {})
            eq((status, got['message']), (401, 'invalid authorization header format'), header)
        eq(server.json('POST', '/v1/namespaces.list', {'Authorization': 'Bearer any'}, {}).status, 200)


# ---- with checks

@scene
def a_store_with_checks_begins_with_an_open_door(binary):
    with Server(binary, *INTERNAL) as server:
        roles = {role['name']: role for role in call(server, 'roles.list', {})['items']}
        eq(set(roles['Admin']['permissions']), ALL)
        eq(set(roles['NamespaceOwner']['permissions']), OWNER)
        eq(set(roles['PublicViewer']['permissions']), {'system.health', 'system.metrics'})
        eq(roles['purge']['permissions'], ['page.purge', 'table.purge'])
        users = call(server, 'users.list', {})['items']
        eq([(user['id'], user['username']) for user in users], [('anonymous', 'anonymous')])
        bindings = call(server, 'rolebindings.list', {'namespace': '_system'})['items']
        eq([(got['user_id'], got['role_id']) for got in bindings], [('anonymous', roles['Admin']['id'])])
        admin = admin_of(server)
        door = {'namespace': '', 'role_name': 'Admin', 'user_id': 'anonymous'}
        call(server, 'rolebindings.delete', door, admin)
        call(server, 'namespaces.list', {}, want=403, message='access denied')
        server.restart()
        call(server, 'namespaces.list', {}, want=403, message='access denied')
        again = {role['name']: role for role in call(server, 'roles.list', {}, admin)['items']}
        eq({name: role['id'] for name, role in again.items()}, {name: role['id'] for name, role in roles.items()})


@scene
def a_key_is_checked_before_anything_else(binary):
    with Server(binary, *INTERNAL) as server:
        admin = admin_of(server)
        other = admin[:-1] + ('a' if admin[-1] != 'a' else 'b')
        for key, message in (('x', 'api key is invalid'), (other, 'api key does not exist')):
            for path, body in (('namespaces.list', {}), ('namespaces.create', {'name': ''}), ('roles.list', {'x': 1}),
                               ('no.such', {})):
                call(server, path, body, key, want=401, message=message)
        expired = call(server, 'apikeys.create', {'user_id': call(server, 'users.list', {}, admin)['items'][0]['id'],
                                                  'expires_at': '2020-01-01T00:00:00Z'}, admin)['key']
        call(server, 'namespaces.list', {}, expired, want=401, message='api key has expired')
        call(server, 'no.such', {}, admin, want=501, message='no such method; /v1/no.such')


@scene
def words_are_checked_before_rights_and_rights_before_what_is_stored(binary):
    with Server(binary, *INTERNAL) as server:
        admin = admin_of(server)
        call(server, 'roles.create', {'namespace': '_system', 'name': 'limited', 'permissions': ['queue.list']}, admin)
        call(server, 'namespaces.create', {'name': 'ns'}, admin)
        _, limited = user_with(server, admin, 'limited', 'limited')
        fine = {'name': 'any', 'permissions': ['queue.list']}
        for namespace in ('ns', 'nowhere'): # no oracle of namespaces
            call(server, 'roles.create', {'namespace': namespace, **fine}, limited, want=403, message='access denied')
            call(server, 'roles.list', {'namespace': namespace}, limited, want=403, message='access denied')
            call(server, 'rolebindings.list', {'namespace': namespace}, limited, want=403, message='access denied')
        call(server, 'roles.create', {'namespace': 'ns', 'name': 'Admin'}, limited, want=403)
        call(server, 'roles.create', {'namespace': 'ns', 'name': ''}, limited, want=400)
        call(server, 'namespaces.create', {'name': 'a b'}, limited, want=400)
        for name, body in (('namespaces.create', {'name': 'x'}), ('namespaces.update', {'name': 'x'}),
                           ('namespaces.list', {}), ('namespaces.delete', {'name': 'x'}),
                           ('users.create', {'username': 'x'}), ('users.list', {}), ('users.delete', {'id': 'x'}),
                           ('apikeys.create', {'user_id': 'x'}), ('apikeys.list', {}), ('apikeys.delete', {'id': 'x'}),
                           ('roles.update', {'namespace': 'ns', 'name': 'x'}),
                           ('roles.delete', {'namespace': 'ns', 'name': 'x'}),
                           ('rolebindings.create', {'namespace': 'ns', 'role_name': 'x', 'user_id': 'x'}),
                           ('rolebindings.delete', {'namespace': 'ns', 'role_name': 'x', 'user_id': 'x'})):
            call(server, name, body, limited, want=403, message='access denied')


@scene
def rights_end_with_the_answer_that_took_them(binary):
    with Server(binary, *INTERNAL) as server:
        admin = admin_of(server)
        call(server, 'roles.create', {'namespace': '_system', 'name': 'looker', 'permissions': ['user.list']}, admin)
        user, key = user_with(server, admin, 'first', 'looker')
        call(server, 'users.list', {}, key)
        call(server, 'roles.update', {'namespace': '_system', 'name': 'looker', 'permissions': ['role.list']}, admin)
        call(server, 'users.list', {}, key, want=403)
        call(server, 'roles.list', {}, key)
        call(server, 'rolebindings.delete', {'role_name': 'looker', 'user_id': user}, admin)
        call(server, 'roles.list', {}, key, want=403)
        ids = {item['id'] for item in call(server, 'apikeys.list', {'user_id': user}, admin)['items']}
        call(server, 'apikeys.delete', {'id': ids.pop()}, admin)
        call(server, 'roles.list', {}, key, want=401, message='api key does not exist')
        user, key = user_with(server, admin, 'second', 'looker')
        call(server, 'roles.list', {}, key)
        call(server, 'users.delete', {'id': user}, admin)
        call(server, 'roles.list', {}, key, want=401, message='api key does not exist')


@scene
def a_scoped_key_and_a_role_in_one_namespace_end_there(binary):
    with Server(binary, *INTERNAL) as server:
        admin = admin_of(server)
        for name in ('ns', 'other'):
            call(server, 'namespaces.create', {'name': name, 'api_key_tag': 'tag'}, admin)
        _, scoped = user_with(server, admin, 'scoped', 'Admin', namespace_scope='ns')
        check(scoped.startswith('qtr-tag-'), scoped)
        call(server, 'roles.list', {'namespace': 'ns'}, scoped)
        call(server, 'roles.list', {'namespace': 'other'}, scoped, want=403, message='access denied')
        call(server, 'users.list', {}, scoped) # what its user may do in _system itself
        _, owner = user_with(server, admin, 'owner', 'NamespaceOwner', 'ns')
        call(server, 'roles.create', {'namespace': 'ns', 'name': 'mine', 'permissions': ['queue.list']}, owner)
        call(server, 'roles.list', {'namespace': 'other'}, owner, want=403)
        call(server, 'users.list', {}, owner, want=403)


@scene
def one_authority_guards_content_and_calls(binary):
    page = '/en.example.test/v1/page/html/A'
    with Server(binary, '--domain', 'en.example.test', *INTERNAL) as server:
        admin = admin_of(server)
        call(server, 'rolebindings.delete', {'role_name': 'Admin', 'user_id': 'anonymous'}, admin)
        call(server, 'namespaces.create', {'name': 'en.example.test'}, admin)
        call(server, 'roles.create', {'namespace': 'en.example.test', 'name': 'editor',
                                      'permissions': ['page.read', 'page.write']}, admin)
        _, editor = user_with(server, admin, 'editor', 'editor', 'en.example.test')
        html = {'Content-Type': 'text/html'}
        eq(server.request('PUT', f'{page}/1', html, b'one').status, 401)
        with_key = {**html, 'Authorization': f'Bearer {editor}'}
        eq(server.request('PUT', f'{page}/1', with_key, b'one').status, 201)
        eq(server.request('GET', page, with_key).status, 200)
        eq(server.request('DELETE', '/en.example.test/v1/page/all/A', with_key).status, 403)
        call(server, 'users.list', {}, editor, want=403)
        # a key of the older route is a key of these
        status, _, made = server.json('POST', '/v1/admin.tokens', {'Authorization': f'Bearer {admin}'},
                                      {'name': 'reader', 'roles': ['read'], 'domain': 'en.example.test'})
        eq(status, 201)
        eq(server.request('GET', page, {'Authorization': f'Bearer {made["key"]}'}).status, 200)
        keys = call(server, 'apikeys.list', {}, admin)['items']
        mine = next(key for key in keys if key['id'] == made['id'])
        eq((mine['namespace_scope'], mine['prefix']), ('en.example.test', made['prefix']))
        bound = call(server, 'rolebindings.list', {'namespace': 'en.example.test'}, admin)['items']
        check(mine['user_id'] in [item['user_id'] for item in bound], str(bound))
        call(server, 'rolebindings.delete', {'namespace': 'en.example.test', 'role_name': 'read',
                                             'user_id': mine['user_id']}, admin)
        eq(server.request('GET', page, {'Authorization': f'Bearer {made["key"]}'}).status, 403)
        check('auth.changed' in server.stderr() and editor[17:] not in server.stderr(), 'the log of changes')


@scene
def nobody_gives_what_he_has_not(binary):
    """Who may make keys is not thereby whoever he makes a key for."""
    with Server(binary, *INTERNAL) as server:
        root_user, root = user_with(server, None, 'root', 'Admin')
        keys = user_with(server, root, 'keys', 'admin')[1]
        owner_user, owner = user_with(server, root, 'owner')
        call(server, 'namespaces.create', {'name': 'ta'}, root)
        call(server, 'rolebindings.create', {'namespace': 'ta', 'role_name': 'NamespaceOwner', 'user_id': owner_user}, root)
        _, makers = user_with(server, root, 'makers')
        call(server, 'roles.create', {'namespace': '_system', 'name': 'maker', 'permissions': ['role.create', 'role.update',
                                                                                             'rolebinding.create']}, root)
        for user in call(server, 'users.list', {}, root)['items']:
            if user['username'] == 'makers':
                maker = user['id']
        call(server, 'rolebindings.create', {'namespace': '_system', 'role_name': 'maker', 'user_id': maker}, root)
        server.json('POST', '/v1/admin.door', {'Authorization': f'Bearer {root}'}, {'open': False})

        def tokens(key, *roles, **more):
            return server.request('POST', '/v1/admin.tokens', {'Authorization': f'Bearer {key}'},
                                  {'roles': list(roles), **more}).status

        eq([tokens(keys, role) for role in ('read', 'write', 'purge', 'admin')], [201] * 4)
        eq([tokens(keys, *roles) for roles in (['Admin'], ['NamespaceOwner'], ['read', 'Admin'])], [403] * 3)
        eq(tokens(keys, 'NamespaceOwner', domain='ta'), 403)
        eq(tokens(root, 'Admin'), 201)
        call(server, 'apikeys.create', {'user_id': root_user}, keys, 403, 'access denied; who has not namespace.create...')
        call(server, 'apikeys.create', {'user_id': root_user, 'namespace_scope': 'ta'}, keys, 403)
        call(server, 'apikeys.create', {'user_id': owner_user}, keys, 403)
        call(server, 'apikeys.create', {'user_id': owner_user}, root)
        eq(server.request('POST', '/v1/admin.door', {'Authorization': f'Bearer {keys}'}, {'open': True}).status, 403)
        call(server, 'rolebindings.create', {'namespace': '_system', 'role_name': 'Admin', 'user_id': maker}, makers, 403)
        call(server, 'roles.create', {'namespace': '_system', 'name': 'more', 'permissions': ['user.list']}, makers, 403)
        call(server, 'roles.update', {'namespace': '_system', 'name': 'maker',
                                      'permissions': ['role.update', 'user.list']}, makers, 403)
        call(server, 'roles.update', {'namespace': '_system', 'name': 'maker', 'permissions': ['role.update']}, makers)
        call(server, 'users.list', {}, makers, 403)
        call(server, 'roles.create', {'namespace': 'ta', 'name': 'clerk', 'permissions': ['queue.list']}, owner)
        call(server, 'rolebindings.create', {'namespace': 'ta', 'role_name': 'clerk', 'user_id': owner_user}, owner)
        call(server, 'rolebindings.create', {'namespace': '_system', 'role_name': 'clerk', 'user_id': owner_user}, owner, 403)
        eq(server.json('POST', '/v1/admin.door', {'Authorization': f'Bearer {root}'}, {'open': True}).status, 200)


CONTENT = ['page.read', 'page.write', 'page.purge', 'table.read', 'table.write', 'table.purge', 'admin.read', 'admin.write',
           'admin.check', 'admin.backup', 'change.write', 'change.read', 'change.private']
DENIED = 'access denied; who has not ...'


def touches(server, domain, key):
    """What answers to a look, a write, a purge, a table and a look of an operator at that domain's content."""
    headers = {'Authorization': f'Bearer {key}'} if key else {}
    return [server.request(method, path, {**headers, 'Content-Type': 'text/html'}, body).status for method, path, body in (
        ('GET', f'/{domain}/v1/page/html/A', None), ('PUT', f'/{domain}/v1/page/html/A/1', b'x'),
        ('DELETE', f'/{domain}/v1/page/all/A', None), ('GET', f'/{domain}/v1/table/t', None),
        ('GET', f'/v1/admin.stash/{domain}', None))]


def tries_content(server, key, user, namespace, code):
    """Every way to rights on content in a namespace is refused to this key: 453 where there is no namespace."""
    message = DENIED if code == 403 else f"namespace does not exist; '{namespace}' was not found"
    for to in (user, 'anonymous'):
        for role in ('Admin', 'admin', 'read', 'write', 'purge'):
            call(server, 'rolebindings.create', {'namespace': namespace, 'role_name': role, 'user_id': to}, key, code, message)
    for permission in CONTENT:
        call(server, 'roles.create', {'namespace': namespace, 'name': 'mine', 'permissions': ['queue.list', permission]}, key,
             403, DENIED)
    if code == 453:
        return
    call(server, 'roles.create', {'namespace': namespace, 'name': 'mine', 'permissions': ['queue.list']}, key)
    call(server, 'rolebindings.create', {'namespace': namespace, 'role_name': 'mine', 'user_id': user}, key)
    call(server, 'rolebindings.create', {'namespace': namespace, 'role_name': 'mine', 'user_id': 'anonymous'}, key)
    for permission in CONTENT:
        call(server, 'roles.update', {'namespace': namespace, 'name': 'mine', 'permissions': [permission]}, key, 403, DENIED)


@scene
def who_manages_queues_gets_no_right_on_content(binary):
    """A domain's name as a namespace is the content of that domain."""
    domains = ('one.test', 'two.test', '*')
    with Server(binary, '--domain', 'one.test', '--domain', 'two.test', *INTERNAL) as server:
        admin = admin_of(server)
        server.json('POST', '/v1/admin.door', {'Authorization': f'Bearer {admin}'}, {'open': False})

        def token(**more):
            status, _, got = server.json('POST', '/v1/admin.tokens', {'Authorization': f'Bearer {admin}'},
                                         {'roles': ['NamespaceOwner'], **more})
            eq(status, 201, str(got))
            return got['key'], next(user['id'] for user in call(server, 'users.list', {}, admin)['items']
                                    if user['username'] == more['name'])

        def nothing(*keys):
            eq([touches(server, domain, key) for key in keys for domain in domains[:2]], [[403] * 5] * 2 * len(keys))
            eq([touches(server, domain, None)[:4] for domain in domains[:2]], [[401] * 4] * 2)

        owner, owner_id = token(name='owner')
        for domain in domains:
            tries_content(server, owner, owner_id, domain, 453)
        nothing(owner)
        call(server, 'namespaces.create', {'name': '*'}, admin, 400, 'namespace name is reserved; ...')
        for domain in ('one.test', 'later.test'):
            call(server, 'namespaces.create', {'name': domain}, admin)
            tries_content(server, owner, owner_id, domain, 403)
        scoped, scoped_id = token(name='scoped', domain='two.test') # it makes the namespace, too
        tries_content(server, scoped, scoped_id, 'two.test', 403)
        call(server, 'rolebindings.create', {'namespace': 'one.test', 'role_name': 'Admin', 'user_id': scoped_id}, scoped, 403,
             'access denied')
        nothing(owner, scoped)
        for namespace in ('one.test', 'later.test'): # queues are the owner's to give
            call(server, 'rolebindings.create', {'namespace': namespace, 'role_name': 'NamespaceOwner', 'user_id': scoped_id},
                 owner)
        server.restart('--domain', 'later.test', *INTERNAL) # a namespace becomes a domain
        eq([touches(server, 'later.test', key) for key in (owner, scoped)], [[403] * 5] * 2)
        eq(touches(server, 'later.test', None)[:4], [401] * 4)


@scene
def who_has_content_gives_of_it_what_he_has(binary):
    with Server(binary, '--domain', 'en.example.test', *INTERNAL) as server:
        admin = admin_of(server)
        server.json('POST', '/v1/admin.door', {'Authorization': f'Bearer {admin}'}, {'open': False})
        space = {'namespace': 'en.example.test'}
        call(server, 'namespaces.create', {'name': 'en.example.test'}, admin)
        call(server, 'roles.create', {**space, 'name': 'chief', 'permissions': ['rolebinding.create', 'role.create', 'role.update',
                                                                              'page.read', 'table.read', 'change.read']}, admin)
        _, chief = user_with(server, admin, 'chief', 'chief', 'en.example.test')
        user, key = user_with(server, admin, 'user')
        eq(touches(server, 'en.example.test', key), [403] * 5)
        for role in ('write', 'purge', 'admin', 'Admin'):
            call(server, 'rolebindings.create', {**space, 'role_name': role, 'user_id': user}, chief, 403, DENIED)
        call(server, 'rolebindings.create', {**space, 'role_name': 'read', 'user_id': user}, chief)
        eq(touches(server, 'en.example.test', key), [404, 403, 403, 404, 403])
        call(server, 'roles.create', {**space, 'name': 'more', 'permissions': ['page.read', 'page.write']}, chief, 403, DENIED)
        call(server, 'roles.create', {**space, 'name': 'looks', 'permissions': ['page.read', 'queue.produce']}, chief)
        call(server, 'rolebindings.create', {**space, 'role_name': 'Admin', 'user_id': user}, admin)
        eq(touches(server, 'en.example.test', key), [404, 201, 204, 404, 200])


@scene
def a_scope_is_not_given_away(binary):
    """A key of one namespace has there what its user may everywhere, and gives it nowhere else."""
    with Server(binary, '--domain', 'en.example.test', *INTERNAL) as server:
        root_user, root = user_with(server, None, 'root', 'Admin')
        server.json('POST', '/v1/admin.door', {'Authorization': f'Bearer {root}'}, {'open': False})
        for name in ('ns', 'en.example.test'):
            call(server, 'namespaces.create', {'name': name}, root)
        scoped = call(server, 'apikeys.create', {'user_id': root_user, 'namespace_scope': 'ns'}, root)['key']
        other, _ = user_with(server, root, 'other')
        eq(touches(server, 'en.example.test', scoped)[:4], [403] * 4)
        denied = "access denied; a key of 'ns' alone cannot give what counts elsewhere"
        for scope in ('', 'en.example.test'):
            call(server, 'apikeys.create', {'user_id': root_user, 'namespace_scope': scope}, scoped, 403, 'access denied; ...')
        call(server, 'rolebindings.create', {'namespace': '_system', 'role_name': 'read', 'user_id': other}, scoped, 403, denied)
        call(server, 'roles.create', {'namespace': '_system', 'name': 'x', 'permissions': ['queue.list']}, scoped, 403, denied)
        for body, want in (({'roles': ['read']}, 403), ({'roles': ['read'], 'domain': 'en.example.test'}, 403),
                           ({'roles': ['read'], 'domain': 'ns'}, 201)):
            eq(server.json('POST', '/v1/admin.tokens', {'Authorization': f'Bearer {scoped}'}, body).status, want, str(body))
        eq(server.request('POST', '/v1/admin.door', {'Authorization': f'Bearer {scoped}'}, {'open': True}).status, 403)
        call(server, 'rolebindings.create', {'namespace': 'ns', 'role_name': 'Admin', 'user_id': other}, scoped)
        call(server, 'apikeys.create', {'user_id': root_user, 'namespace_scope': 'ns'}, scoped)


main()
