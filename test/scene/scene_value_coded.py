"""Goal: a value is the bytes it holds, whatever the coding that it was sent, stored or asked for in.
Method: each value is put and got in every pair of codings, against a real server."""
import base64
import concurrent.futures
import gzip
import random

from harness import check, eq, main, scene, wait_until
from page_help import ZSTD_BUCKET, page_server, path, put, zstd_of
from shared_store import not_shared

KV = '/localhost/v1/key_value'
HTML = {'Content-Type': 'text/html'}


def codings_of(server, raw):
    """Ways to send raw: header fields and body by a name."""
    return {'identity': ({}, raw), 'named-identity': ({'Content-Encoding': 'identity'}, raw),
            'gzip': ({'Content-Encoding': 'gzip'}, gzip.compress(raw, 1)),
            'other-gzip': ({'Content-Encoding': 'x-gzip'}, gzip.compress(raw, 9, mtime=7)),
            'stored-gzip': ({'x-store-content-encoding': 'gzip'}, gzip.compress(raw, 6)),
            'zstd': ({'Content-Encoding': 'zstd'}, zstd_of(server, raw)),
            'stored-zstd': ({'x-store-content-encoding': 'zstd'}, zstd_of(server, raw))}


@scene
def an_equal_value_is_equal_in_every_coding(binary):
    with page_server(binary, *ZSTD_BUCKET) as server:
        eq(server.request('PUT', KV + '/b').status, 201)
        put = lambda key, way, fields: server.request('PUT', f'{KV}/b/{key}', {**HTML, **way[0], **fields}, way[1])
        for raw in (b'{"a": 1}' * 40, bytes(range(256)) * 40, b'<p>large</p>' * 90000):
            same, other = codings_of(server, raw), codings_of(server, raw[:-1] + b'!')
            for first in same:
                eq(put(first, same[first], {'x-store-etag': f'"{first}"'}).status, 201)
                for then in same:
                    got = put(first, same[then], {'If-None-Hash-Match': '*', 'x-store-etag': '"again"'})
                    eq((got.status, got.headers['etag']), (412, f'"{first}"'), f'{first}, then {then}, {len(raw)} bytes')
                eq(server.request('GET', f'{KV}/b/{first}').body, raw)
                for then in other:
                    eq(put(first, same[first], {}).status, 201)
                    got = put(first, other[then], {'If-None-Hash-Match': '*'})
                    eq(got.status, 201, f'{first}, then another in {then}')


@scene
def of_equal_puts_in_many_codings_at_once_one_is_stored(binary):
    with page_server(binary, *ZSTD_BUCKET) as server:
        eq(server.request('PUT', KV + '/b').status, 201)
        ways = list(codings_of(server, b'one and the same' * 5000).values()) * 3
        for key in range(5):
            def put_equal(way):
                return server.request('PUT', f'{KV}/b/{key}', {**HTML, **way[0], 'If-None-Hash-Match': '*'}, way[1])
            with concurrent.futures.ThreadPoolExecutor(len(ways)) as pool:
                got = list(pool.map(put_equal, ways))
            eq(sorted(answer.status for answer in got), [201] + [412] * (len(ways) - 1))


@scene
def an_equal_value_whose_frame_changes_is_equal_all_the_same(binary):
    """A frame is undone beside the step that stores: what was found of it says nothing of another."""
    with page_server(binary) as server:
        eq(server.request('PUT', KV + '/b').status, 201)
        raw = bytes(range(256)) * 2000
        frames = [gzip.compress(raw, level, mtime=level) for level in range(1, 10)]
        store = lambda frame: server.request('PUT', KV + '/b/k', {**HTML, 'Content-Encoding': 'gzip'}, frame).status
        put = lambda body: server.request('PUT', KV + '/b/k', {**HTML, 'If-None-Hash-Match': '*'}, body).status
        eq(store(frames[0]), 201)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            others = [pool.submit(lambda: [store(frame) for frame in frames * 10]) for _ in range(2)]
            told = [put(raw)]
            while not all(other.done() for other in others):
                told.append(put(raw))
        check(set(told) <= {412, 503}, 'never stored: it was equal at any time')
        check(412 in told, told)
        eq(put(raw), 412)
        eq(put(raw[:-1] + b'!'), 201)
        eq(store(frames[3]), 201)
        eq(put(raw), 412, 'once it rests')


@scene
@not_shared('5 MB are written to no cluster in 10 ms')
def a_frame_that_is_undone_gives_its_request_no_second_deadline(binary):
    with page_server(binary, '--set', 'write_timeout=10ms') as server:
        wait_until(lambda: server.request('PUT', KV + '/b').status == 201, 'the bucket', 30)
        raw = base64.b64encode(random.Random(7).randbytes(5 << 20))     # to undo its frame takes longer than 10 ms
        frame = gzip.compress(raw, 1)
        store = lambda: server.request('PUT', KV + '/b/k', {**HTML, 'Content-Encoding': 'gzip'}, frame).status
        wait_until(lambda: store() == 201, 'the value', 30)
        eq(server.request('PUT', KV + '/b/k', {**HTML, 'If-None-Hash-Match': '*'}, raw).status, 503)


def tags_by_coding(server, where, fields=None):
    """The entity tags of the identity and the gzip answer; 304 and HEAD have the same."""
    tags = []
    for coding in ('identity', 'gzip'):
        asked = {'Accept-Encoding': coding, **(fields or {})}
        got = server.request('GET', where, asked)
        eq((got.status, got.headers['content-encoding']), (200, None if coding == 'identity' else coding))
        eq(server.request('HEAD', where, asked).headers['etag'], got.headers['etag'])
        tags.append(got.headers['etag'])
    for coding, tag in zip(('identity', 'gzip'), tags):
        for known in tags:
            got = server.request('GET', where, {'Accept-Encoding': coding, 'If-None-Match': known, **(fields or {})})
            eq((got.status, got.headers['etag']), (304, tag), f'{known}, asked in {coding}')
    return tags


@scene
def a_strong_entity_tag_names_one_coding(binary):
    """RFC 9110 8.8.3: what differs in its bytes has no strong tag in common."""
    member, rev_value = gzip.compress(b'x' * 500), '/localhost/v1/key_rev_value'
    for strong in (False, True):
        with page_server(binary, *(('--set', 'compat.etag=strong') if strong else ())) as server:
            weak = '' if strong else 'W/'
            eq([server.request('PUT', kind + '/b').status for kind in (KV, rev_value)], [201] * 2)
            for given, in_gzip in (('"7/x"', weak + '"7/x"'), ('W/"7/x"', 'W/"7/x"')):
                fields = {'Content-Encoding': 'gzip', 'x-store-etag': given}
                eq(server.request('PUT', KV + '/b/k', fields, member).status, 201)
                eq(tags_by_coding(server, KV + '/b/k'), [given, in_gzip])
            got = server.request('PUT', rev_value + '/b/k/7', {'Content-Encoding': 'gzip'}, member)
            eq(tags_by_coding(server, rev_value + '/b/k'), [got.headers['etag'], weak + got.headers['etag']])
            eq(server.request('PUT', KV + '/b/raw', {'x-store-etag': '"r"'}, b'x' * 500).status, 201)
            got = server.request('GET', KV + '/b/raw', {'Accept-Encoding': 'gzip'})
            eq((got.headers['etag'], got.headers['content-encoding']), ('"r"', None))
            put(server, 'A', 1, b'<p>' * 500)
            strong_tag, in_gzip = tags_by_coding(server, path('html', 'A'))
            eq(in_gzip, weak + strong_tag)


@scene
def two_names_of_a_coding_agree_or_are_refused(binary):
    """Whatever is stored, all can read it."""
    with page_server(binary, *ZSTD_BUCKET) as server:
        eq(server.request('PUT', KV + '/b').status, 201)
        raw = b'<p>the value</p>' * 20
        bodies = {'identity': raw, 'gzip': gzip.compress(raw), 'zstd': zstd_of(server, raw)}
        names = ['', 'identity', 'gzip', 'x-gzip', 'GZIP', 'zstd', 'br', 'gzip, gzip', 'gzip;q=1']
        meaning = {'': 'identity', 'x-gzip': 'gzip', 'GZIP': 'gzip'}
        for sent in names:
            for named in names:
                for made, body in bodies.items():
                    fields = {n: v for n, v in (('Content-Encoding', sent), ('x-store-content-encoding', named)) if v}
                    said = {meaning.get(name, name) for name in (sent, named) if name} or {'identity'}
                    what = f'{fields}, a body in {made}'
                    server.request('DELETE', KV + '/b/k')
                    got = server.request('PUT', KV + '/b/k', {**HTML, **fields}, body)
                    if said == {made} or said == {'identity'}:
                        eq(got.status, 201, what)
                        for coding in ('identity', 'gzip'):
                            read = server.request('GET', KV + '/b/k', {'Accept-Encoding': coding})
                            eq(read.status, 200, what)
                            coded = read.headers['content-encoding']
                            content = gzip.decompress(read.body) if coded == 'gzip' else read.body
                            eq(content, body if said == {'identity'} else raw, what)
                    else:
                        eq(got.status, 400 if len(said) > 1 or said <= set(bodies) else 415, what)
                        eq(server.request('GET', KV + '/b/k').status, 404, what)


main()
