"""Goal: every message of the contract, to the letter, in both encodings, and the order of the checks. Method: a table of
requests, each with one thing wrong, or with several, of which the first is told."""
import json
import socket

from harness import check, eq, main, scene
from queue_help import BOTH, call, create, fine, lease, produce, queue_server, refused, waiting

LONG = 'n' * 513
UNKNOWN = '27Cg8GpnHZwQQtdQ3CEsgKpyJbl'    # a good id that was never given
NAME = 'queue name is invalid; '
TIMEOUT = 'request timeout is invalid; '
GO = 'request timeout is invalid; time: invalid duration "foo" - expected format: 900ms, 5m or 15m'
REQUIRED = "request timeout is required; '5m' is recommended, 15m is the maximum"
NO_ID = 'Valid encoded KSUIDs are 27 characters'


def item(**fields):
    return {'utf8': 'x', **fields}


def produce_body(**fields):
    return {'queue_name': 'q', 'request_timeout': '1m', 'items': [item()], **fields}


def lease_body(**fields):
    return {'queue_name': 'q', 'request_timeout': '1m', 'batch_size': 1, 'client_id': 'c', **fields}


def complete_body(**fields):
    return {'queue_name': 'q', 'request_timeout': '1m', 'ids': [UNKNOWN], **fields}


def retry_body(**fields):
    return {'queue_name': 'q', 'items': [{'id': UNKNOWN}], **fields}


def info(**fields):
    return {'queue_name': 'new', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1, **fields}


def table(server, path, rows):
    for body, text in rows:
        for wire in BOTH:
            refused(server, path, body, 400, text, wire)


@scene
def who_stops_sending_gives_a_lease_up(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        body = json.dumps(lease_body())
        with server.connect() as peer:
            peer.sendall(f'POST /v1/queue.lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
                         f'Content-Length: {len(body)}\r\n\r\n{body}'.encode())
            waiting(server, 'q', 'lease', 1)
            peer.shutdown(socket.SHUT_WR)
            answer = b''
            while piece := peer.recv(65536):
                answer += piece
        told = json.loads(answer.partition(b'\r\n\r\n')[2])
        eq((told['code'], told['message']),
           (454, 'request was given up; the client stopped sending, no items were leased'))
        produce(server, 'q', 'x')
        eq(len(lease(server, 'q')[1]), 1)


@scene
def names_of_queues(binary):
    with queue_server(binary) as server:
        for path in ('/v1/queue.produce', '/v1/queue.lease', '/v1/queue.complete', '/v1/queue.retry', '/v1/queue.stats',
                     '/v1/queue.clear', '/v1/queue.reload', '/v1/queues.info', '/v1/storage/items.list',
                     '/v1/storage/scheduled.list', '/v1/storage/items.import', '/v1/storage/items.delete',
                     '/v1/lease.take', '/v1/lease.extend', '/v1/queue.peek', '/v1/queue.why', '/v1/partitions.list',
                     '/v1/partitions.add'):
            table(server, path, [
                ({'queue_name': ''}, NAME + 'queue name cannot be empty'),
                ({'queue_name': ' \t'}, NAME + 'queue name cannot be empty'),
                ({'queue_name': 'a~b'}, NAME + "'a~b' cannot contain '~' character"),
                ({'queue_name': 'none'}, "queue does not exist; no such queue named 'none'"),
            ])
        for path in ('/v1/queues.create', '/v1/queues.update', '/v1/queues.delete'):
            table(server, path, [
                ({'queue_name': ''}, NAME + 'queue name cannot be empty'),
                ({'queue_name': 'a b~'}, NAME + "'a b~' cannot contain whitespace"),
                ({'queue_name': 'a\u2003b'}, NAME + "'a\u2003b' cannot contain whitespace"),
                ({'queue_name': 'a~b'}, NAME + "'a~b' cannot contain '~' character"),
                ({'queue_name': 'a\0b'}, NAME + 'it cannot contain NUL'),
                ({'queue_name': LONG}, NAME + "cannot be greater than '512' characters"),
            ])


@scene
def produce_is_checked(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        table(server, '/v1/queue.produce', [
            (produce_body(request_timeout=''), REQUIRED),
            (produce_body(request_timeout='0'), REQUIRED),
            (produce_body(request_timeout='16m'), TIMEOUT + "maximum timeout is '15m' but '16m0s' was requested"),
            (produce_body(request_timeout='15m'), TIMEOUT + "maximum timeout is '15m' but '15m0s' was requested"),
            (produce_body(request_timeout='1ms'), TIMEOUT + "minimum timeout is '10ms' but '1ms' was requested"),
            (produce_body(request_timeout='-1s'), TIMEOUT + "minimum timeout is '10ms' but '-1s' was requested"),
            (produce_body(request_timeout='foo'), GO),
            (produce_body(request_timeout='5'), GO.replace('invalid duration "foo"', 'missing unit in duration "5"')),
            (produce_body(items=[]), 'items cannot be empty; at least one item is required'),
            (produce_body(items=[{}] * 1001), 'items is invalid; max_produce_batch_size is 1000 but received 1001'),
            (produce_body(items=[], request_timeout=''), REQUIRED),
        ])
        for wire in BOTH:
            fine(server, '/v1/queue.produce', produce_body(items=[{}] * 1000), wire)


@scene
def lease_is_checked(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        table(server, '/v1/queue.lease', [
            (lease_body(client_id=''), 'invalid client id; cannot be empty'),
            (lease_body(client_id=' \n'), 'invalid client id; cannot be empty'),
            (lease_body(batch_size=0), 'invalid batch size; must be greater than zero'),
            (lease_body(batch_size=-1), 'invalid batch size; must be greater than zero'),
            (lease_body(batch_size=1001), 'invalid batch size; max_lease_batch_size is 1000, but 1001 was requested'),
            (lease_body(request_timeout=''), REQUIRED),
            (lease_body(request_timeout='16m'), TIMEOUT + "maximum timeout is '15m' but '16m0s' was requested"),
            (lease_body(request_timeout='10ms'), TIMEOUT + "minimum timeout is '10ms' but '10ms' was requested"),
            (lease_body(request_timeout='foo', client_id=''), GO),
            (lease_body(request_timeout='', client_id='', batch_size=0), 'invalid client id; cannot be empty'),
        ])


@scene
def complete_and_retry_are_checked(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        produce(server, 'q', 'a', 'b')
        _, [leased] = lease(server, 'q')
        [free] = [one for one in fine(server, '/v1/storage/items.list', {'queue_name': 'q'})['items']
                  if not one.get('is_leased')]
        table(server, '/v1/queue.complete', [
            (complete_body(partition=65234), "partition is invalid; '65234' is not a valid partition"),
            (complete_body(partition=-1), "partition is invalid; '-1' is not a valid partition"),
            (complete_body(partition=1, request_timeout='foo'), "partition is invalid; '1' is not a valid partition"),
            (complete_body(request_timeout='foo', ids=[]), GO),
            (complete_body(ids=[], request_timeout=''), 'ids is invalid; list of ids cannot be empty'),
            (complete_body(ids=[UNKNOWN] * 1001), 'ids is invalid; max_complete_batch_size is 1000 but received 1001'),
            (complete_body(request_timeout='15m1s'), TIMEOUT + "maximum timeout is '15m' but '15m1s' was requested"),
            (complete_body(request_timeout=''), REQUIRED),
            (complete_body(ids=['another']), f"invalid storage id; 'another': {NO_ID}"),
            (complete_body(ids=['']), f"invalid storage id; '': {NO_ID}"),
            (complete_body(ids=[UNKNOWN]), f"invalid storage id; '{UNKNOWN}' does not exist"),
            (complete_body(ids=[free['id']]), f"item(s) cannot be completed; '{free['id']}' is not marked as leased"),
            (complete_body(ids=[leased['id'], free['id']]),
             f"item(s) cannot be completed; '{free['id']}' is not marked as leased"),
        ])
        table(server, '/v1/queue.retry', [
            (retry_body(partition=65234), "partition is invalid; '65234' is not a valid partition"),
            (retry_body(items=[]), 'items is invalid; list of items cannot be empty'),
            (retry_body(items=[{'id': UNKNOWN}] * 1001), 'items is invalid; max_complete_batch_size is 1000 but received 1001'),
            (retry_body(items=[{'id': 'another'}]), f"invalid storage id; 'another': {NO_ID}"),
            (retry_body(items=[{'id': UNKNOWN}]), f"invalid storage id; '{UNKNOWN}' does not exist"),
            (retry_body(items=[{'id': leased['id']}, {'id': free['id']}]),
             f"item(s) cannot be retried; '{free['id']}' is not marked as leased"),
        ])
        [still] = [one for one in fine(server, '/v1/storage/items.list', {'queue_name': 'q'})['items'] if one.get('is_leased')]
        eq(still['id'], leased['id'], 'a refused request changed something')


@scene
def storage_and_clear_are_checked(binary):
    with queue_server(binary) as server:
        create(server, 'q', 2)
        partition = "partition is invalid; '2' is not a valid partition"
        table(server, '/v1/queue.clear', [({'queue_name': 'q'}, "invalid clear request; one of 'queue', 'scheduled' must be true"),
                                          ({'queue_name': 'q', 'destructive': True},
                                           "invalid clear request; one of 'queue', 'scheduled' must be true")])
        for path in ('/v1/storage/items.list', '/v1/storage/scheduled.list'):
            table(server, path, [({'queue_name': 'q', 'partition': 2}, partition),
                                 ({'queue_name': 'q', 'pivot': 'invalid-id'}, f"invalid storage id; 'invalid-id': {NO_ID}")])
        negative = 'attempts is invalid; cannot be negative number'
        table(server, '/v1/storage/items.import', [
            ({'queue_name': 'q', 'partition': 2}, partition),
            ({'queue_name': 'q'}, 'items is invalid; cannot be empty'),
            ({'queue_name': 'q', 'items': [{}, {'attempts': -1}]}, negative),
            ({'queue_name': 'q', 'items': [{'max_attempts': -1}]}, 'max ' + negative),
            ({'queue_name': 'q', 'items': [{'attempts': 2**29 + 1}]},
             f'attempts is invalid; cannot be greater than {2**29}'),
        ])
        eq(fine(server, '/v1/storage/items.list', {'queue_name': 'q'}), {}, 'none of a refused import')
        table(server, '/v1/storage/items.delete', [({'queue_name': 'q', 'partition': 2}, partition),
                                                   ({'queue_name': 'q'}, 'ids is invalid; cannot be empty'),
                                                   ({'queue_name': 'q', 'ids': ['invalid-id']},
                                                    f"invalid storage id; 'invalid-id': {NO_ID}")])


@scene
def options_of_queues_are_checked(binary):
    dead = 'dead queue is invalid; '
    with queue_server(binary) as server:
        create(server, 'there')
        create(server, 'graves')
        create(server, 'has-graves', dead_queue='graves')
        both = [
            (info(lease_timeout='1' * 15 + 'm'), "lease timeout is invalid; cannot be greater than '15' characters"),
            (info(expire_timeout='1' * 15 + 'm'), "expire timeout is invalid; cannot be greater than '15' characters"),
            (info(expire_timeout='foo', lease_timeout='foo'),
             'expire timeout is invalid; time: invalid duration "foo" - expected format: 60m, 2h or 24h'),
            (info(lease_timeout='foo'),
             'lease timeout is invalid; time: invalid duration "foo" - expected format: 8m, 15m or 1h'),
            (info(namespace='a b'), "namespace name is invalid; 'a b' cannot contain whitespace"),
            (info(dead_queue='a~b'), dead + "'a~b' cannot contain '~' character"),
            (info(dead_queue='a b'), dead + "'a b' cannot contain whitespace"),
            (info(dead_queue=LONG), dead + "cannot be greater than '512' characters"),
            (info(dead_queue='none'), "dead_queue does not exist; 'none' was not found, create it first"),
            (info(dead_queue='has-graves'), "dead_queue is invalid; 'has-graves' already has its own dead_queue configured"),
            (info(reference='r' * 2001), "reference field is invalid; cannot be greater than '2000' characters"),
            (info(max_attempts=-1), 'max attempts is invalid; cannot be negative number'),
            (info(max_attempts=65537), 'max attempts is invalid; cannot be greater than 65536'),
            (info(requested_partitions=-1), 'partitions is invalid; cannot be less than 1'),
            (info(lease_timeout='1h', expire_timeout='30m'),
             'lease timeout is too long; 1h0m0s cannot be greater than the expire timeout 30m0s'),
        ]
        table(server, '/v1/queues.create', both + [
            (info(queue_name='there'), "invalid queue; 'there' already exists"),
            (info(queue_name='there', dead_queue='none'), "invalid queue; 'there' already exists"),
            (info(dead_queue='new'), 'dead_queue cannot reference itself'),
            (info(requested_partitions=0), 'partitions is invalid; cannot be less than 1'),
            (info(lease_timeout=''), 'lease timeout is invalid; cannot be empty'),
            (info(expire_timeout=''), 'expire timeout is invalid; cannot be empty'),
            (info(lease_timeout='', expire_timeout=''), 'lease timeout is invalid; cannot be empty'),
        ])
        table(server, '/v1/queues.update',
              [({**body, 'queue_name': 'there'}, text) for body, text in both]
              + [(info(queue_name='none'), "queue does not exist; no such queue named 'none'"),
                 (info(queue_name='there', dead_queue='there'), 'dead_queue cannot reference itself')])
        refused(server, '/v1/queues.create', info(namespace='none'), 453, "namespace does not exist; 'none' was not found")
        names = [queue['queue_name'] for queue in fine(server, '/v1/queues.list', {})['items']]
        eq(names, ['graves', 'has-graves', 'there'])


@scene
def lists_are_checked(binary):
    with queue_server(binary) as server:
        table(server, '/v1/queues.list', [
            ({'limit': -1}, 'limit is invalid; limit cannot be negative'),
            ({'limit': 65537}, 'limit is invalid; cannot be greater than 65536'),
            ({'pivot': 'a~b'}, "pivot is invalid; 'a~b' cannot contain '~' character"),
        ])
        create(server, 'q')
        table(server, '/v1/queue.why', [
            ({'queue_name': 'q', 'limit': -1}, 'limit is invalid; limit cannot be negative'),
            ({'queue_name': 'q', 'limit': 65537}, 'limit is invalid; cannot be greater than 65536'),
        ])


@scene
def a_name_of_five_hundred_and_twelve_bytes_works_everywhere(binary):
    name = 'é/..%' * 85 + 'nn'
    eq(len(name.encode()), 512)
    with queue_server(binary) as server:
        for wire in BOTH:
            create(server, name, wire=wire)
            produce(server, name, 'x', wire=wire)
            partition, items = lease(server, name, wire=wire)
            eq(len(items), 1)
            body = {'queue_name': name, 'partition': partition, 'request_timeout': '1m', 'ids': [items[0]['id']]}
            fine(server, '/v1/queue.complete', body, wire)
            fine(server, '/v1/queue.stats', {'queue_name': name}, wire)
            fine(server, '/v1/queues.delete', {'queue_name': name}, wire)
            check(call(server, '/v1/queue.stats', {'queue_name': name}, wire).status == 400, 'deleted')


main()
