"""Goal: how a call is read and answered, before any queue is looked at: types, encodings, limits, methods, unknown paths,
the header of a key. Method: raw requests to a real server; the texts are the peer's."""
import json
import subprocess

from harness import check, eq, main, scene
from queue_help import BOTH, TYPES, call, create, fine, messages, queue_server, refused

LIST = '/v1/queues.list'


def post(server, body=b'{}', path=LIST, **headers):
    return server.request('POST', path, {name.replace('_', '-'): value for name, value in headers.items()}, body)


def message(answer):
    return json.loads(answer.body)['message']


@scene
def types_of_requests(binary):
    with queue_server(binary) as server:
        for kind in ('application/json', 'Application/JSON; charset=utf-8', '*/*', 'application/*', 'application/json, x'):
            eq(post(server, Content_Type=kind).status, 200, kind)
        eq(server.request('POST', LIST, {}, b'{}').status, 200, 'no type')
        eq(post(server, b'', Content_Type='application/protobuf').status, 200)
        for kind in ('text/plain', 'application/jso', 'application/x-protobuf', 'json'):
            got = post(server, Content_Type=kind)
            eq(got.status, 455, kind)
            eq(message(got), f"Content-Type header '{kind}' is invalid format or unrecognized content type")


@scene
def types_of_answers(binary):
    with queue_server(binary) as server:
        for accept in ('application/json', '*/*', 'application/*', 'application/json;q=0.9, text/html'):
            got = post(server, Accept=accept)
            eq((got.status, got.headers['Content-Type']), (200, 'application/json'), accept)
        got = post(server, Accept='application/protobuf')
        eq((got.status, got.headers['Content-Type'], got.body), (200, 'application/protobuf', b''))
        got = post(server, Accept='text/html')
        eq((got.status, got.headers['Content-Type']), (455, 'application/json'))
        eq(message(got), "Accept header 'text/html' is invalid format or unrecognized content type, only "
                         '[application/json,application/protobuf] are supported by this method')
        got = post(server, b'', Content_Type='application/protobuf')
        eq((got.status, got.headers['Content-Type']), (200, 'application/json'), 'whatever the request is in')
        got = post(server, b'', Content_Type='application/protobuf', Accept='*/*')
        eq((got.status, got.headers['Content-Type']), (200, 'application/json'), 'as curl asks')
        eq(got.headers['X-Content-Type-Options'], 'nosniff')


@scene
def errors_come_in_the_encoding_that_was_asked_for(binary):
    with queue_server(binary) as server:
        for wire in BOTH:
            refused(server, '/v1/queue.stats', {'queue_name': 'none'}, 400, "queue does not exist; no such queue named 'none'",
                    wire)


@scene
def wrong_bodies(binary):
    with queue_server(binary) as server:
        for body in (b'', b'null', b'[]', b'{', b'{"limit":"x"}', b'{"nope":1}', b'{"limit":1,"limit":1}', b'{"pivot":"\xff"}',
                     b'{"limit":1.5}', b'{"pivot":1}', b'{} {}'):
            got = post(server, body)
            eq(got.status, 455, body)
            check(message(got).startswith('JSON'), message(got))
            eq(json.loads(got.body)['code_text'], 'Client Content Error')
        for body in (b'\x12\x05a', b'\x12\x01\xff', b'\xff'):
            got = post(server, body, Content_Type='application/protobuf', Accept='application/json')
            eq(got.status, 455, body)
            check(message(got).startswith('protobuf'), message(got))


@scene
def either_name_and_quoted_numbers(binary):
    with queue_server(binary) as server:
        create(server, 'q')
        got = post(server, json.dumps({'queueName': 'q'}).encode(), '/v1/queue.stats')
        eq(got.status, 200, got.body)
        got = post(server, b'{"limit":"1e0"}')
        eq([queue['queue_name'] for queue in json.loads(got.body)['items']], ['q'])


@scene
def bodies_have_limits(binary):
    limits = {'/v1/queue.lease': (8192, '8.0KiB'), '/v1/queue.stats': (8192, '8.0KiB'), '/v1/queue.clear': (8192, '8.0KiB'),
              '/v1/queue.reload': (8192, '8.0KiB'), '/v1/queue.complete': (256000, '250.0KiB'),
              '/v1/queue.retry': (256000, '250.0KiB'), '/v1/queues.create': (256000, '250.0KiB'),
              '/v1/queues.update': (512000, '500.0KiB'), '/v1/storage/items.list': (256000, '250.0KiB'),
              '/v1/queue.produce': (5000000, '5.0MB'), '/v1/storage/items.import': (64000000, '61.0MiB')}
    with queue_server(binary) as server:
        for path, (limit, text) in limits.items():
            fits = b'{"queue_name":"' + b'x' * (limit - 17) + b'"}'
            got = post(server, fits, path)
            check(got.status == 400 and 'exceeds' not in message(got), f'{path} {got.status} {got.body[:300]}')
            got = post(server, fits + b' ', path)
            eq((got.status, message(got)), (400, f'request body exceeds {text} limit'), path)


@scene
def other_methods_and_paths(binary):
    with queue_server(binary) as server:
        for method in ('GET', 'PUT', 'DELETE'):
            got = server.request(method, '/v1/queue.produce')
            eq((got.status, message(got)), (400, f"http method '{method}' not allowed; only POST"))
        for path in ('/v1/nope', '/v1/queues.rebalance', '/v1/storage/scheduled.add', '/v1/storage/scheduled.delete',
                     '/v1/queue.pause', '/v1/storage.items-list'):
            got = post(server, path=path)
            eq((got.status, message(got)), (501, f'no such method; {path}'), path)


@scene
def a_header_that_is_not_bearer_is_refused_with_open_doors_too(binary):
    with queue_server(binary) as server:
        for path in (LIST, '/v1/nope'):
            got = post(server, path=path, Authorization='Basic eDp5')
            eq((got.status, message(got)), (401, 'invalid authorization header format'))
        eq(post(server, Authorization='Bearer whatever').status, 200)


@scene
def every_call_takes_both_encodings(binary):
    """An unknown queue is refused alike in both, so each message was read in both."""
    with queue_server(binary) as server:
        for path, (request, _) in TYPES.items():
            if 'queue_name' not in messages()[request].DESCRIPTOR.fields_by_name or path == '/v1/queues.create':
                continue
            answers = [call(server, path, {'queue_name': 'none'}, wire) for wire in BOTH]
            eq(answers[0][::2], answers[1][::2], path)
            eq(answers[0].body['message'], "queue does not exist; no such queue named 'none'", path)


@scene
def health_and_metrics(binary):
    with queue_server(binary) as server:
        create(server, 'a"b')
        fine(server, '/v1/queue.produce', {'queue_name': 'a"b', 'request_timeout': '1m', 'items': [{}, {}]})
        got = server.request('GET', '/health')
        eq((got.status, got.headers['Content-Type']), (200, 'application/health+json'))
        body = json.loads(got.body)
        [probe] = body['checks']['queues:storage']
        eq((body['status'], probe['status'], probe['componentType']), ('pass', 'pass', 'datastore'))
        told = subprocess.run([binary, 'version', '--json'], capture_output=True, timeout=60, check=True).stdout
        eq(body['version'], json.loads(told)['version'])
        got = server.request('GET', '/metrics')
        eq(got.status, 200)
        check(b'palimpsest_queue_items{queue="a\\"b",partition="0",state="ready"} 2\n' in got.body, got.body[-3000:])


main()
