"""What a store of test/data holds, and what is asked of it: written by fill(), listed by questions().

fill() writes something of every kind that is stored. questions() are requests that change nothing; they are asked before
and after a move of the clock that lets part of it fall due. make_store.py records the answers of the binary that wrote
the store, scene_old_store.py compares those of today's.
"""
import base64
import hashlib
import json
import random

from harness import check, eq
from origin import Origin
from page_help import path, put, tid
from queue_help import create, fine, lease, produce, retry

DAY = 86400
END = 3 * DAY + 3600            # seconds after START, where the store was left
TEXT_MAX = 300
LATER = '26h'                   # and how far the questions are asked again
BUCKETS = {'mobile': {'policy': 'latest_hash', 'contents': 'lead,remaining'}, 'every': {'policy': 'all'},
           'two': {'policy': 'latest', 'count': 2, 'grace_ttl': '1h'}, 'daily': {'policy': 'interval', 'interval': '1d'},
           'brief': {'policy': 'ttl', 'ttl': '2d'}, 'packed': {'codec': 'zstd'}, 'plain': {'codec': 'identity'}}
TYPES = ('string', 'blob', 'set<string>', 'int', 'varint', 'decimal', 'float', 'double', 'boolean', 'timeuuid', 'uuid',
         'timestamp', 'json', 'long')
ROW = {
    'string': 'a', 'blob': {'base64': 'YmxvYg=='}, 'set<string>': ['bar', 'foo'], 'int': -1, 'varint': '-4503599627370',
    'decimal': '1.20', 'float': -1.5, 'double': 1.2, 'boolean': True, 'timeuuid': 'c931ec94-6c31-11e4-b6d0-0f67e29867e0',
    'uuid': 'd6938370-c996-4def-96fb-6af7ba9b6f72', 'timestamp': '2014-11-14T19:10:40.912Z',
    'json': {'foo': ['bar', 1]}, 'long': '9223372036854775807'}
KV, KRV, TABLE = '/localhost/v1/key_value', '/localhost/v1/key_rev_value', '/localhost/v1/table'
BUCKETS_OF_VALUES = ((f'{KV}/notes', {'keyType': 'string', 'valueType': 'blob', 'version': 3}),
                     (f'{KV}/short', {'default_time_to_live': 4 * DAY}), (f'{KRV}/revs', None))


def options():
    """Of the server, to write the store and to serve it."""
    told = ['--domain', 'localhost', '--domain', 'wiki.test', '--set', 'page.historical_ttl=5d']
    for name, fields in BUCKETS.items():
        for field, value in {'kind': 'page', **fields}.items():
            told += ['--set', f'buckets.{name}.{field}={value}']
    return told


def text(size, seed):
    """Bytes that no codec makes much smaller: they lie in the log, not beside their row."""
    return base64.b64encode(random.Random(seed).randbytes(size))


def send(server, method, where, body=None, headers=None, status=201):
    got = server.request(method, where, headers, body)
    eq(got.status, status, f'{method} {where}: {got.body[:300]}')
    return got


# ---- writing

def first_pages(server):
    for rev, second in ((1, 0), (2, 10), (2, 20), (3, 30)):
        bundle = {'html': {'headers': {'content-type': 'text/html; charset=utf-8', 'x-mine': 'yes'},
                           'body': f'<p>Earth {rev} at {second}. ' + 'The third planet. ' * 40},
                  'data-parsoid': {'headers': {'content-type': 'application/json'}, 'body': {'counter': second}}}
        send(server, 'PUT', path('all', 'Earth', rev, tid(second)), bundle)
    for title in ('Größe', 'A/B'):
        send(server, 'PUT', path('html', title.replace('ö', '%C3%B6').replace('ß', '%C3%9F').replace('/', '%2F'), 7, tid(5)),
             b'<p>' + title.encode(), {'Content-Type': 'text/html'})
    put(server, 'Large', 1, text(9000, 1), tid(0))
    put(server, 'Large', 2, text(9000, 2), tid(40))
    put(server, 'Gone', 1, b'one', tid(0))
    put(server, 'Gone', 2, b'two', tid(1))
    for bucket in BUCKETS:
        content = 'lead' if bucket == 'mobile' else 'html'
        for rev, second in ((1, 0), (1, 1), (1, 2), (2, 3)):
            put(server, 'A', rev, f'{bucket} {rev}.{second} '.encode() * 60, tid(second), bucket=bucket, content=content)


def later_pages(server):
    put(server, 'Earth', 4, b'<p>Earth 4', tid(2 * DAY))
    put(server, 'Earth', 3, b'<p>Earth 3, late', tid(31))
    for rev, second in ((1, 2 * DAY), (2, 2 * DAY + 1), (3, 2 * DAY + 2), (4, 2 * DAY + 3), (5, 2 * DAY + 4)):
        put(server, 'Kept', rev, f'kept {rev}'.encode(), tid(second))
    send(server, 'GET', path('html', 'Kept', 1), status=200)                  # until it was asked for 5 days ago
    send(server, 'GET', path('html', 'Kept', 2) + '?stash=true', status=200)
    send(server, 'PUT', path('hold', 'Kept', 3), {'until': '2026-02-01T00:00:00Z'}, status=200)
    for title in ('Purged', 'Halved'):
        for rev in (1, 2):
            put(server, title, rev, f'{title} {rev}'.encode(), tid(2 * DAY + rev))
    send(server, 'DELETE', path('all', 'Purged'), status=204)
    send(server, 'DELETE', path('all', 'Halved', 2), status=204)
    put(server, 'A', 3, b'lead 3', tid(2 * DAY), bucket='mobile', content='lead')
    put(server, 'A', 2, b'two 2.9', tid(2 * DAY), bucket='two')


def wiki_pages(server, origin):
    """Of a wiki: renders it made, a preview that is stashed, a hidden revision, a deleted page."""
    where = '/wiki.test/v1/page/html/'
    for title in 'ABC':
        send(server, 'GET', where + title, status=200)
    send(server, 'POST', '/wiki.test/v1/transform/wikitext/to/html/A/7', json.dumps({'wikitext': 'typed', 'stash': True}),
         {'Content-Type': 'application/json'}, 200)
    origin.delete('B')
    origin.hide('C', 9)
    send(server, 'GET', where + 'B', headers={'Cache-Control': 'no-cache'}, status=404)
    send(server, 'GET', where + 'C/9', headers={'Cache-Control': 'no-cache'}, status=410)


def tables(server):
    attributes = {f'a_{number}': kind for number, kind in enumerate(TYPES)}
    index = [{'attribute': 'k', 'type': 'hash'}, {'attribute': 'r', 'type': 'range', 'order': 'desc'}]
    schema = {'attributes': {'k': 'string', 'r': 'int', 's': 'string', **attributes},
              'index': [*index, {'attribute': 's', 'type': 'static'}],
              'secondaryIndexes': {'by_int': [{'attribute': 'a_3', 'type': 'hash'}, {'attribute': 'a_0', 'type': 'proj'}]},
              'options': {'compression': [{'algorithm': 'lz4', 'block_size': 64}], 'default_time_to_live': 10 * DAY}}
    send(server, 'PUT', f'{TABLE}/types', schema)
    values = {f'a_{number}': ROW[kind] for number, kind in enumerate(TYPES)}
    for r in range(3):
        row = {'k': 'x', 'r': r, 's': f'static {r}', **values}
        send(server, 'POST', f'{TABLE}/types/put', {'attributes': row, **({'_ttl': 4 * DAY} if r == 1 else {})})
    send(server, 'POST', f'{TABLE}/types/put', {'attributes': {'k': 'y', 'r': 0, 'a_0': text(3000, 3).decode()}})
    send(server, 'PUT', f'{TABLE}/types', {**schema, 'version': 2, 'attributes': {**schema['attributes'], 'more': 'long'}})
    send(server, 'POST', f'{TABLE}/types/put', {'attributes': {'k': 'z', 'r': 1, 'more': '7', 'a_3': -1}})
    for name, policy in (('newest', {'type': 'latest', 'count': 2, 'grace_ttl': 5 * DAY}), ('front', {'type': 'latest_hash'}),
                         ('steps', {'type': 'interval', 'count': 1, 'interval': DAY, 'grace_ttl': 2 * DAY}),
                         ('ends', {'type': 'ttl', 'ttl': 4 * DAY}), ('dropped', {'type': 'all'})):
        send(server, 'PUT', f'{TABLE}/{name}', {
            'attributes': {'k': 'string', 'r': 'int', 't': 'timeuuid', 'v': 'string'},
            'index': [*index, {'attribute': 't', 'type': 'range', 'order': 'desc'}], 'revisionRetentionPolicy': policy})
        for r, second in ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1)):
            send(server, 'POST', f'{TABLE}/{name}/put', {'attributes': {'k': 'x', 'r': r, 't': tid(second), 'v': f'{r}.{second}'}})
    send(server, 'DELETE', f'{TABLE}/dropped', status=204)
    send(server, 'POST', '/localhost/v1/batch', [
        {'op': 'put', 'table': 'newest', 'attributes': {'k': 'b', 'r': 1, 't': tid(5), 'v': 'of a batch'}},
        {'op': 'put', 'table': 'ends', 'attributes': {'k': 'b', 'r': 1, 't': tid(5), 'v': 'of a batch'}}])


def values(server):
    for where, body in BUCKETS_OF_VALUES:
        send(server, 'PUT', where, body)
    for bucket in ('notes', 'short'):
        send(server, 'PUT', f'{KV}/{bucket}/a', b'hello', {'x-store-etag': '"7/x"', 'x-store-content-type': 'text/css'})
        send(server, 'PUT', f'{KV}/{bucket}/b%2Fc', text(3000, 4), {'Content-Type': 'text/plain'})
    for rev, second in ((1, 0), (3, 1), (2, 2), (3, 3)):
        send(server, 'PUT', f'{KRV}/revs/k/{rev}/{tid(second)}', f'{rev}.{second}'.encode(), {'content-type': 'text/plain'})


def queues(server):
    create(server, 'dead', lease_timeout='1h', expire_timeout='240h')
    create(server, 'work', partitions=2, lease_timeout='90h', expire_timeout='240h', dead_queue='dead', max_attempts=2)
    for number in range(6):
        produce(server, 'work', f'ready {number}', reference=f'r{number}', kind='k', encoding='e')
    produce(server, 'work', 'later', enqueue_at='2026-01-04T12:00:00Z')
    produce(server, 'work', text(2000, 5))
    produce(server, 'work', 'once', headers={'Idempotency-Key': 'a-key', 'Order-Key': 'an-order'})
    partition, [item] = lease(server, 'work')
    retry(server, 'work', [item], partition, dead=True)
    lease(server, 'work', client='holder')                    # leased still when the store is left
    create(server, 'empty')
    fine(server, '/v1/namespaces.create', {'name': 'ns', 'description': 'A namespace'})


def people(server):
    """Returns the keys, by the name of their user."""
    keys = {}
    reads = ['page.read', 'table.read', 'queue.list']
    for name, permissions in (('reads', reads), ('writes', [*reads, 'page.write', 'table.write', 'user.list'])):
        fine(server, '/v1/roles.create', {'namespace': '_system', 'name': name, 'permissions': permissions})
    for name, role in (('reader', 'reads'), ('writer', 'writes'), ('boss', 'Admin')):
        user = fine(server, '/v1/users.create', {'username': name})['id']
        fine(server, '/v1/rolebindings.create', {'namespace': '_system', 'role_name': role, 'user_id': user})
        keys[name] = fine(server, '/v1/apikeys.create', {'user_id': user})['key']
    fine(server, '/v1/roles.create', {'namespace': 'ns', 'name': 'own', 'permissions': ['queue.lease', 'queue.stats']})
    return keys


def fill(server, origin):
    """Writes everything; returns keys. The clock is at START, and is at END afterwards."""
    server.clock(advance='1m')
    first_pages(server)
    tables(server)
    values(server)
    queues(server)
    server.clock(advance='2d')
    later_pages(server)
    wiki_pages(server, origin)
    keys = people(server)
    server.clock(advance=f'{END - 2 * DAY - 60}s')
    send(server, 'PUT', path('html', 'Last', 1, tid(END)), b'<p>written as the last', {'Content-Type': 'text/html'})
    fine(server, '/v1/rolebindings.delete', {'namespace': '_system', 'role_name': 'Admin', 'user_id': 'anonymous'},
         headers={'Authorization': f'Bearer {keys["boss"]}'})
    return keys


def wiki():
    origin = Origin()
    for title, rev in (('A', 7), ('B', 8), ('C', 9)):
        origin.page(title, (rev, f'text of {title}'))
    return origin


# ---- asking

def page_questions():
    asked = [('GET', path('title', ''), None)]
    for title in ('Earth', 'Gr%C3%B6%C3%9Fe', 'A%2FB', 'Large', 'Gone', 'Kept', 'Purged', 'Halved', 'Last', 'Never'):
        asked += [('GET', path(kind, title), None) for kind in ('html', 'history', 'explain', 'title')]
        asked += [('GET', path('explain', title, rev), None) for rev in range(1, 6)]
    asked += [('GET', path('data-parsoid', 'Earth', 3, tid(30)), None), ('GET', path('html', 'Earth', 2, tid(20)), None)]
    asked += [('GET', path('html', 'Earth') + f'?at=2026-01-0{day}T00:00:20Z', None) for day in (1, 2, 3)]
    for bucket in BUCKETS:
        content = 'lead' if bucket == 'mobile' else 'html'
        asked += [('GET', path(kind, 'A', bucket=bucket), None) for kind in (content, 'history', 'explain')]
    for title in 'ABC':
        asked += [('GET', f'/wiki.test/v1/page/{kind}/{title}', None) for kind in ('html', 'explain')]
    return asked


def other_questions():
    asked = [('GET', f'{TABLE}/{name}', None) for name in ('types', 'newest', 'front', 'steps', 'ends', 'dropped')]
    for name in ('types', 'newest', 'front', 'steps', 'ends', 'dropped'):
        asked += [('POST', f'{TABLE}/{name}/get', {}), ('POST', f'{TABLE}/{name}/get', {'attributes': {'k': 'x'}})]
    asked.append(('POST', f'{TABLE}/types/get', {'index': 'by_int', 'attributes': {'a_3': -1}}))
    asked.append(('POST', f'{TABLE}/types/get', {'attributes': {'k': 'x'}, 'withTTL': True}))
    for key in ('notes/', 'notes/a', 'notes/b%2Fc', 'short/', 'short/a', 'none/a'):
        asked.append(('GET', f'{KV}/{key}', None))
    for key in ('revs/', 'revs/k/', 'revs/k', 'revs/k/3', f'revs/k/3/{tid(1)}', 'revs/k/9'):
        asked.append(('GET', f'{KRV}/{key}', None))
    for name in ('work', 'dead', 'empty'):
        asked += [('POST', '/v1/queues.info', {'queue_name': name}), ('POST', '/v1/queue.stats', {'queue_name': name})]
        for partition in range(2 if name == 'work' else 1):
            asked += [('POST', f'/v1/storage/{kind}.list', {'queue_name': name, 'partition': partition})
                      for kind in ('items', 'scheduled')]
    asked += [('POST', f'/v1/{kind}.list', {}) for kind in ('queues', 'namespaces', 'users', 'apikeys', 'rolebindings')]
    asked.append(('POST', '/v1/roles.list', {'namespace': 'ns'}))
    return asked


def questions():
    return page_questions() + other_questions()


def ask(server, question, headers=None):
    """[status, entity tag, type, body] of a question; a body of JSON as its value, without what a start counts."""
    method, where, body = question
    got = server.request(method, where, headers, body)
    kind = got.headers['Content-Type']
    plain = got.body.decode()
    if kind is not None and 'json' in kind:
        plain = json.loads(plain)
    return [got.status, got.headers['ETag'], kind, settled(plain)]


def settled(value):
    """Without words for people, which may change; of long texts their digest."""
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return f'{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()}'
    if isinstance(value, list):
        return [settled(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: settled(one) for name, one in value.items() if name not in ('detail', 'message')}


def unnamed(items):
    """What came back to its queue has a new id, whose end is drawn."""
    return sorted(({name: one for name, one in item.items() if name != 'id'} for item in items), key=lambda one: json.dumps(one, sort_keys=True))


def ask_all(server):
    """{"METHOD path body": answer}, first as it was left, then LATER."""
    told = {}
    for when in ('left', 'later'):
        if when == 'later':
            server.clock(advance=LATER)
        for question in questions():
            name = ' '.join([when, question[0], question[1], json.dumps(question[2])])
            check(name not in told, f'{name} is asked twice')
            told[name] = ask(server, question)
            if when == 'later' and '/storage/' in question[1] and 'items' in told[name][3]:
                told[name][3]['items'] = unnamed(told[name][3]['items'])
    return told


def say_again(server, headers):
    """What clients tell at each of their starts: the same schemas, and the same buckets of values."""
    for where, body in BUCKETS_OF_VALUES:
        send(server, 'PUT', where, body, headers)
    for name in ('types', 'newest', 'front', 'steps', 'ends'):
        schema = send(server, 'GET', f'{TABLE}/{name}', headers=headers, status=200).body
        send(server, 'PUT', f'{TABLE}/{name}', schema, headers)


DOORS = (('GET', path('html', 'Earth'), None), ('POST', '/v1/users.list', {}), ('POST', '/v1/queues.list', {}))


def ask_doors(server, keys):
    """With keys checked: status of each of DOORS by each key and by nobody."""
    told = {}
    for name, key in [('nobody', None), *keys.items()]:
        headers = {'Authorization': f'Bearer {key}'} if key else {}
        told[name] = [server.request(method, where, headers, body).status for method, where, body in DOORS]
    return told
