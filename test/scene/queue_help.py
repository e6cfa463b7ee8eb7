"""What the scenes of queues share: calls in both encodings, through Google's library, and the usual requests."""
import base64
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from harness import Answer, Server, check, eq, wait_until

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2
except ImportError:
    if sys.executable == '/usr/bin/python3' or not os.access('/usr/bin/python3', os.X_OK):
        sys.exit('python3-protobuf is missing')
    os.execv('/usr/bin/python3', ['/usr/bin/python3', *sys.argv])

START = '2026-01-01T00:00:00Z'
ZERO = '0001-01-01T00:00:00Z'
NO_ITEMS = 'request timeout; no items are in the queue, try again'
BOTH = ('json', 'protobuf')
CODEC = pathlib.Path(__file__).resolve().parents[2] / 'src' / 'codec'

OWN = {
    '/v1/lease.take': ('LeaseTakeRequest', 'LeaseTakeResponse'),
    '/v1/lease.complete': ('LeaseChangeRequest', 'Reply'),
    '/v1/lease.retry': ('LeaseChangeRequest', 'Reply'),
    '/v1/lease.extend': ('LeaseChangeRequest', 'Reply'),
    '/v1/queue.peek': ('QueuePeekRequest', 'StorageItemsListResponse'),
    '/v1/queue.requeue': ('QueueRequeueRequest', 'QueueRequeueResponse'),
    '/v1/queue.why': ('QueueWhyRequest', 'QueueWhyResponse'),
    '/v1/partitions.list': ('PartitionsListRequest', 'PartitionsListResponse'),
    **{f'/v1/partitions.{verb}': ('PartitionChangeRequest', 'Reply')
       for verb in ('add', 'drain', 'pause', 'resume', 'move', 'rebalance')},
}
TYPES = {
    '/v1/queue.produce': ('QueueProduceRequest', 'Reply'),
    '/v1/queue.lease': ('QueueLeaseRequest', 'QueueLeaseResponse'),
    '/v1/queue.complete': ('QueueCompleteRequest', 'Reply'),
    '/v1/queue.retry': ('QueueRetryRequest', 'Reply'),
    '/v1/queue.stats': ('QueueStatsRequest', 'QueueStatsResponse'),
    '/v1/queue.clear': ('QueueClearRequest', 'Reply'),
    '/v1/queue.reload': ('QueueReloadRequest', 'Reply'),
    '/v1/queues.create': ('QueueInfo', 'Reply'),
    '/v1/queues.update': ('QueueInfo', 'Reply'),
    '/v1/queues.list': ('QueuesListRequest', 'QueuesListResponse'),
    '/v1/queues.info': ('QueuesInfoRequest', 'QueueInfo'),
    '/v1/queues.delete': ('QueuesDeleteRequest', 'Reply'),
    '/v1/storage/items.list': ('StorageItemsListRequest', 'StorageItemsListResponse'),
    '/v1/storage/scheduled.list': ('StorageItemsListRequest', 'StorageItemsListResponse'),
    '/v1/storage/items.import': ('StorageItemsImportRequest', 'StorageItemsImportResponse'),
    '/v1/storage/items.delete': ('StorageItemsDeleteRequest', 'Reply'),
    '/v1/namespaces.create': ('NamespaceInfo', 'Reply'),
    '/v1/users.create': ('UserCreateRequest', 'UserCreateResponse'),
    '/v1/apikeys.create': ('APIKeyCreateRequest', 'APIKeyCreateResponse'),
    '/v1/roles.create': ('RoleCreateRequest', 'RoleCreateResponse'),
    '/v1/rolebindings.create': ('RoleBindingCreateRequest', 'RoleBindingCreateResponse'),
    '/v1/rolebindings.delete': ('RoleBindingDeleteRequest', 'Reply'),
    **OWN,
}


@functools.cache
def messages():
    """{name: class} of all messages, with Google's Timestamp for ours."""
    with tempfile.TemporaryDirectory() as folder:
        out = f'{folder}/set'
        subprocess.run(['protoc', f'-I{CODEC}', '-I/usr/include', f'--descriptor_set_out={out}',
                        *sorted(map(str, CODEC.glob('*.proto')), reverse=True)], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out).read_bytes())
    pool, found, before = descriptor_pool.DescriptorPool(), {}, ['google/protobuf/timestamp.proto']
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in sorted(files.file, key=lambda file: file.name != 'querator.proto'):
        del file.dependency[:]
        file.dependency.extend(before)
        before.append(file.name)
        file.options.Clear()
        for field in (field for kind in file.message_type for field in kind.field):
            field.options.Clear()
            if field.type_name == '.querator.Timestamp':
                field.type_name = '.google.protobuf.Timestamp'
        pool.AddSerializedFile(file.SerializeToString())
        factory = message_factory.MessageFactory(pool)
        for kind in file.message_type:
            found[kind.name] = factory.GetPrototype(pool.FindMessageTypeByName(f'{file.package}.{kind.name}'))
    return found


def call(server, path, body, wire='json', headers=None):
    """POSTs the message in one encoding, wants the answer in it; returns Answer with the body as JSON has it."""
    request, reply = TYPES[path]
    kind = f'application/{wire}'
    raw = json.dumps(body).encode()
    if wire == 'protobuf':
        raw = json_format.ParseDict(body, messages()[request]()).SerializeToString()
    got = server.request('POST', path, {'Content-Type': kind, 'Accept': kind, **(headers or {})}, raw)
    eq(got.headers['Content-Type'], kind, f'type of the answer to {path}: {got.body[:300]}')
    eq(got.headers['X-Content-Type-Options'], 'nosniff')
    if wire == 'json':
        return Answer(got.status, got.headers, json.loads(got.body))
    read = messages()[reply if got.status == 200 else 'Reply'].FromString(got.body)
    return Answer(got.status, got.headers, json_format.MessageToDict(read, preserving_proto_field_name=True))


def fine(server, path, body, wire='json', headers=None):
    """The answer's body; fails when it is not 200."""
    got = call(server, path, body, wire, headers)
    eq(got.status, 200, f'{path} {json.dumps(body)[:200]}: {got.body}')
    return got.body


CODE_TEXTS = {400: 'Bad Request', 401: 'Unauthorized', 403: 'Forbidden', 422: 'Unprocessable Content', 453: 'Request Failed',
              454: 'Retry Request', 455: 'Client Content Error', 501: 'Not Implemented'}


def refused(server, path, body, code, message, wire='json', headers=None):
    """It answers with this code and this message (or one that begins so, when it ends in '...')."""
    got = call(server, path, body, wire, headers)
    what = f'{path} {json.dumps(body)[:200]}'
    text = got.body.get('message', '')
    if message.endswith('...'):
        check(text.startswith(message[:-3]), f'{what}: got {text!r}, want {message!r}')
        message = text
    eq((got.status, got.body), (code, {'code': code, 'code_text': CODE_TEXTS[code], 'message': message}), what)


def queue_server(binary, *args, **named):
    """A server whose clock stands at START."""
    return Server(binary, *args, test_hooks=named.pop('test_hooks', START), **named)


def create(server, name, partitions=1, wire='json', headers=None, **more):
    """A queue with leases of a minute and a day to live, unless said otherwise."""
    body = {'queue_name': name, 'lease_timeout': '1m', 'expire_timeout': '24h', 'requested_partitions': partitions, **more}
    eq(fine(server, '/v1/queues.create', body, wire, headers), {'code': 200})


def produce(server, name, *payloads, wire='json', headers=None, timeout='1m', **fields):
    items = [{'bytes': base64.b64encode(p.encode() if isinstance(p, str) else p).decode(), **fields} for p in payloads]
    body = {'queue_name': name, 'request_timeout': timeout, 'items': items}
    eq(fine(server, '/v1/queue.produce', body, wire, headers), {'code': 200})


def lease(server, name, batch=1, client='c', timeout='1m', wire='json'):
    """(partition, items); the bytes decoded. Fails when none came."""
    got = fine(server, '/v1/queue.lease', {'queue_name': name, 'batch_size': batch, 'client_id': client,
                                           'request_timeout': timeout}, wire)
    eq(got['queue_name'], name)
    for item in got['items']:
        item['bytes'] = base64.b64decode(item.get('bytes', ''))
    return got.get('partition', 0), got['items']


def nothing_to_lease(server, name, timeout='20ms', wire='json'):
    refused(server, '/v1/queue.lease', {'queue_name': name, 'batch_size': 1, 'client_id': 'none', 'request_timeout': timeout},
            454, NO_ITEMS, wire)


def complete(server, name, items, partition=0, wire='json'):
    body = {'queue_name': name, 'partition': partition, 'request_timeout': '1m', 'ids': [item['id'] for item in items]}
    eq(fine(server, '/v1/queue.complete', body, wire), {'code': 200})


def retry(server, name, items, partition=0, wire='json', **fields):
    body = {'queue_name': name, 'partition': partition, 'items': [{'id': item['id'], **fields} for item in items]}
    eq(fine(server, '/v1/queue.retry', body, wire), {'code': 200})


def stored(server, name, partition=0, pivot='', limit=0, wire='json', scheduled=False):
    """What lies in a partition, in order of ids; the payloads decoded."""
    path = '/v1/storage/scheduled.list' if scheduled else '/v1/storage/items.list'
    got = fine(server, path, {'queue_name': name, 'partition': partition, 'pivot': pivot, 'limit': limit}, wire)
    for item in got.get('items', []):
        item['payload'] = base64.b64decode(item.get('payload', ''))
    return got.get('items', [])


def stats(server, name, wire='json'):
    got = fine(server, '/v1/queue.stats', {'queue_name': name}, wire)
    eq(got['queue_name'], name)
    [logical] = got['logicalQueues']
    return logical


def totals(server, name):
    """Items of each partition, leased ones too."""
    return [part.get('total', 0) for part in stats(server, name)['partitions']]


def pause(server, name, on=True):
    eq(server.json('POST', '/v1/test.pause', body={'queue_name': name, 'pause': on})[::2], (200, {}))


def waiting(server, name, what, count):
    """Waits until so many requests of that kind (produce, lease, complete) wait in the queue."""
    wait_until(lambda: stats(server, name).get(f'{what}_waiting', 0) == count, f'{count} {what} wait in {name}')


def loop_stayed_free(server):
    """No callback of its loop took over 5 ms, but for waiting for a processor, which the kernel counts."""
    [stalls] = re.findall(r'^palimpsest_loop_stalls_total (\d+)', server.request('GET', '/metrics').body.decode(), re.M)
    delayed_ns = int(pathlib.Path(f'/proc/{server.pid}/schedstat').read_text().split()[1])
    check(int(stalls) * 5_000_000 <= delayed_ns, f'{stalls} stalls; waited {delayed_ns / 1e6} ms for a processor')


def waits_longer_than_it_lives(server, name, between):
    """An item is due an hour after the end of what was produced with it, waits again for longer than it lives, and comes
    out each time; then it dies as long after it was due as an item lives. between: done while it waits."""
    create(server, 'dead')
    create(server, name, expire_timeout='1h', dead_queue='dead')
    produce(server, name, 'now')
    produce(server, name, 'later', enqueue_at='2026-01-01T02:00:00Z')
    for due, ends in ('02:00', '03:00'), ('05:00', '06:00'):
        between(server)
        [waiting] = stored(server, name, scheduled=True)
        eq((waiting['payload'], waiting['expire_deadline']), (b'later', f'2026-01-01T{ends}:00Z'))
        server.clock(freeze=f'2026-01-01T{due}:00Z')
        _, [item] = lease(server, name)
        eq((item['bytes'], [one['payload'] for one in stored(server, 'dead')]), (b'later', [b'now']))
        retry(server, name, [item], retry_at='2026-01-01T05:00:00Z')
    between(server)
    server.clock(freeze='2026-01-01T05:59:59Z')
    eq([one['payload'] for one in stored(server, name)], [b'later'])
    server.clock(freeze='2026-01-01T06:00:00Z')
    eq((stored(server, name), [one['payload'] for one in stored(server, 'dead')]), ([], [b'now', b'later']))
