"""Goal: on a full disk what is stored is read, and what takes away (renders, holds, keys, rights) is done.
Method: a server started anew with a reserve larger than what the disk has free."""
import shutil

from harness import eq, main, scene, wait_until
from page_help import get, page_server, path, put

RESERVE = 1 << 40   # the largest there is


def full(server):
    """False: this disk has more room than any reserve."""
    if shutil.disk_usage(server.folder).free >= RESERVE:
        return False
    server.restart(*server.args, '--set', 'store.free_bytes_min=1T')
    wait_until(lambda: server.request('PUT', path('html', 'Full', 1), body=b'x').status == 507, 'the disk counts as full')
    return True


@scene
def rights_are_taken_away(binary):
    with page_server(binary, '--set', 'auth=internal') as server:
        keys = [server.json('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body for _ in range(2)]
        if not full(server):
            return
        eq(server.request('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).status, 507)
        bearer = [{'Authorization': f'Bearer {key["key"]}'} for key in keys]
        eq(server.request('GET', '/v1/admin.tokens', bearer[0]).status, 200)
        eq(server.request('DELETE', f'/v1/admin.tokens/{keys[0]["id"]}', bearer[1]).status, 204)
        eq(server.request('GET', '/v1/admin.tokens', bearer[0]).status, 401)
        eq(server.request('POST', '/v1/admin.door', body={'open': False}).status, 200)
        eq(server.request('GET', '/v1/admin.tokens').status, 401)
        server.restart()
        eq(server.request('GET', '/v1/admin.tokens', bearer[0]).status, 401)
        eq(server.request('GET', '/v1/admin.tokens', bearer[1]).status, 200)


@scene
def superseded_renders_are_read_and_holds_end(binary):
    with page_server(binary) as server:
        for rev in (1, 2):
            put(server, 'A', rev, b'%d' % rev)
        eq(server.request('PUT', path('hold', 'A', 1), body={'until': '2099-01-01T00:00:00Z'}).status, 200)
        if not full(server):
            return
        eq(server.request('PUT', path('hold', 'A', 2), body={'until': '2099-01-01T00:00:00Z'}).status, 507)
        eq(server.request('DELETE', path('hold', 'A', 1)).status, 204)
        server.clock(advance='20h')     # near enough to its end that a read extends its life
        eq(get(server, 'A', 1).body, b'1')
        eq(server.request('DELETE', path('all', 'A', 1)).status, 204)
        eq(get(server, 'A', 1, status=410).status, 410)


main()
