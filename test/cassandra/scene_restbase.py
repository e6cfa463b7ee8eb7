"""Goal: what a RESTBase left in Cassandra is imported whole, under its revisions and tids, once;
what is interrupted goes on; what can be no render is left out by name; what was purged stays so.
Method: fixtures/restbase.cql, which RESTBase's own module made, and rows beside it made here."""
import json
import re
import signal
import subprocess
import time
import urllib.parse
import uuid

import rig
from cli import Client
from full import full
from harness import Server
from restbase_rows import (
    DATA, DOMAIN, GROUP, HTML, blob, drop_all, insert, load, make, quoted, rows_of, tid_of)
from rig import check, eq, main, node, scene, wait_until

RENDERS = 17
HTML_TYPE = ('text/html; charset=utf-8; '
             'profile="https://www.mediawiki.org/wiki/Specs/HTML/2.0.0"')


def arguments(cluster, *more, keyspaces=None):
    given = ('--keyspace', ','.join(keyspaces)) if keyspaces else ()
    return ('import', 'restbase', '--contact-points', f'{cluster.address(1)}:{cluster.port}',
            '--local-dc', cluster.datacentre(1), '--source-domain', DOMAIN, *given, *more)


def page(server, content, title, *name):
    place = '/'.join([urllib.parse.quote(title, safe=''), *map(str, name)])
    return server.request_again('GET', f'/localhost/v1/page/{content}/{place}')


@scene
def all_of_a_bucket_comes_with_its_revisions_tids_and_headers(binary):
    cluster = node()
    load(cluster)
    with Server(binary) as server:
        client = Client(binary, server)
        done, = client.json(*arguments(cluster, '--verify', keyspaces=(HTML, DATA)))
        eq((done['renders'], done['stored'], done['refused'], done['left_out'], done['incomplete']),
           (RENDERS, RENDERS, 0, 0, 0), done)
        eq(done['verified']['equal'], RENDERS, done)
        for space, content in ((HTML, 'html'), (DATA, 'data-parsoid')):
            rows = rows_of(cluster, space)
            eq(len(rows), RENDERS)
            for row in rows:
                answer = page(server, content, row['key'], row['rev'], row['tid'])
                value = row['value']
                eq((answer.status, answer.body),
                   (200, value if isinstance(value, bytes) else value.encode()), row['key'])
                eq(answer.headers['etag'], f'"{row["rev"]}/{row["tid"]}"')
        newest = page(server, 'html', 'Earth')
        eq((newest.headers['content-type'], newest.headers['content-language']), (HTML_TYPE, 'en'))
        check('revision 12' in newest.body.decode(), newest.body)
        again, = client.json(*arguments(cluster, keyspaces=(HTML, DATA)))
        eq((again['stored'], again['already']), (0, RENDERS), again)
        eq(sorted(client.ok('ls').split()), sorted({row['key'] for row in rows}))


@scene
def without_a_keyspace_the_only_bucket_is_taken_and_of_several_none(binary):
    cluster = node()
    load(cluster)
    with Server(binary) as server:
        client = Client(binary, server)
        refused = client(*arguments(cluster))
        said = refused.stderr.decode()
        eq(refused.returncode, 6, said)
        check('say which by --keyspace' in said and HTML in said and DATA in said, said)
        check(GROUP + 'parsoid,' not in said and 'timeline' not in said, said)
        other = client(*arguments(cluster, keyspaces=(GROUP + 'parsoid',)))
        eq(other.returncode, 5, other.stderr)
        check(b'it has no rev that is a number' in other.stderr, other.stderr)
        eq(client(*arguments(cluster, keyspaces=('system',))).returncode, 1)
        load(cluster, HTML[:-4])
        done, = client.json(*arguments(cluster))
        eq((done['stored'], done['incomplete']), (RENDERS, 0), done)
        eq(page(server, 'data-parsoid', 'Earth').status, 200)
        mobile = client(*arguments(cluster, keyspaces=('html=' + DATA, 'html=' + HTML)))
        eq(mobile.returncode, 6, mobile.stderr)
        load(cluster, GROUP + 'mobile')
        done, = client.json(*arguments(cluster))
        eq(done['stored'], 1, done)
        answer = page(server, 'mobile', 'Earth', 12, rows_of(cluster, GROUP + 'mobile')[0]['tid'])
        eq((answer.status, json.loads(answer.body)['sections'][0]['text']), (200, '<p>Earth'))
        check('host' not in answer.headers, answer.headers)
        with cluster.session() as session:
            drop_all(session)
        nothing = client(*arguments(cluster))
        eq(nothing.returncode, 5, nothing.stderr)
        check(b'no keyspace there has renders' in nothing.stderr, nothing.stderr)


@scene
def what_can_be_no_render_is_left_out_and_told(binary):
    cluster = node()
    with cluster.session() as session:
        drop_all(session)
        space = make(session, cluster, 'hostile_html', rev='string', tid='uuid', static=True)
        fine, v4 = tid_of(1), str(uuid.uuid4())
        insert(session, space, 'Fine', "'7'", fine, blob('<p>fine'))
        insert(session, space, 'Version4', "'7'", v4, blob('<p>'))
        insert(session, space, 'Words', "'seven'", fine, blob('<p>'))
        insert(session, space, 'Zero', "'0'", fine, blob('<p>'))
        insert(session, space, 'Negative', "'-7'", fine, blob('<p>'))
        insert(session, space, 'Giant', "'99999999999999999999'", fine, blob('<p>'))
        insert(session, space, 'Null', "'7'", fine, 'null')
        insert(session, space, 'Empty', "'7'", fine, '0x')
        insert(session, space, 'Broken', "'7'", fine, blob('<p>broken'), '{"content-type": "te')
        insert(session, space, 'List', "'7'", fine, blob('<p>list'), '["text/html"]')
        insert(session, space, 'NoHeaders', "'7'", fine, blob('<p>none'), None)
        insert(session, space, 'Nasty', "'7'", fine, blob('<p>nasty'), json.dumps(
            {'content-type': 'text/html', 'x-a': 'a\r\nset-cookie: b', 'Set-Cookie': 'c', 'x-b': 5,
             'x-c': {'d': 1}, 'x-d': None, 'etag': '"1/2"', 'x-e': 'kept', 'X-E': 'twice'}))
        insert(session, space, 'Packed', "'7'", fine, blob('<p>'),
               '{"content-encoding": "gzip", "content-type": "text/html"}')
        insert(session, space, 'Bytes', "'7'", fine, blob(b'\xff\x00\xfe'),
               '{"content-type": "image/png"}')
        insert(session, space, 'Large', "'7'", fine, blob(b'<p>' + b'x' * (5 << 20)))
        insert(session, space, 't' * 500, "'7'", fine, blob('<p>'))
        insert(session, space, 't' * 2000, "'7'", fine, blob('<p>'))
        insert(session, space, 'a\x01b', "'7'", fine, blob('<p>'))
        insert(session, space, 'Future', "'7'", tid_of(10 ** 10), blob('<p>'))
        session.execute(f'INSERT INTO "{space}".data ("_domain", "key", "latest_tid") '
                        f'VALUES ({quoted(DOMAIN)}, \'Static\', {fine})')
    with Server(binary) as server:
        client = Client(binary, server)
        ended = client(*arguments(cluster, '--json', '--verify'))
        said = [json.loads(line)['warning'] for line in ended.stderr.decode().splitlines()]
        eq(ended.returncode, 0, said)
        done = json.loads(ended.stdout)
        stored = {'Fine': b'<p>fine', 'Empty': b'', 'Broken': b'<p>broken', 'List': b'<p>list',
                  'NoHeaders': b'<p>none', 'Nasty': b'<p>nasty', 'Bytes': b'\xff\x00\xfe',
                  'Large': b'<p>' + b'x' * (5 << 20)}
        eq((done['renders'], done['stored'], done['refused'], done['left_out'],
            done['headers_lost'], done['verified']['equal']),
           (19, len(stored), 3, 8, 2, len(stored)), (done, said))
        for title, body in stored.items():
            answer = page(server, 'html', title, 7, fine)
            eq((answer.status, answer.body), (200, body), title)
        for title, why in (('Version4', 'its tid is no UUID of version 1'),
                           ('Words', 'its revision is no number above 0'),
                           ('Giant', 'its revision is no number above 0'),
                           ('Null', 'its value is null'),
                           ('Packed', 'it is compressed by whoever wrote it'),
                           ('t' * 20, 'its title is too long'),
                           ('Broken', 'its headers cannot be read')):
            check(any(title in line and why in line for line in said), (title, why, said))
        eq(page(server, 'html', 'Bytes').headers['content-type'], 'image/png')
        eq(page(server, 'html', 'Broken').headers['content-type'], 'text/html; charset=utf-8')
        nasty = page(server, 'html', 'Nasty').headers
        eq((nasty.get('x-e'), nasty.get('x-b'), nasty.get('x-a'), nasty.get('set-cookie')),
           ('kept', '5', None, None), dict(nasty))


@scene
def what_was_purged_stays_so_and_is_counted(binary):
    cluster = node()
    load(cluster)
    with Server(binary) as server:
        client = Client(binary, server)
        eq(server.request('DELETE', '/localhost/v1/page/all/Earth').status, 204)
        eq(server.request('DELETE', '/localhost/v1/page/all/Mars/11').status, 204)
        done, = client.json(*arguments(cluster, '--verify', '--quiet', keyspaces=(HTML, DATA)))
        eq((done['stored'], done['gone'], done['refused']), (RENDERS - 6, 6, 0), done)
        eq((done['verified']['equal'], done['verified']['refused']), (RENDERS - 6, 6), done)
        eq(page(server, 'html', 'Earth').status, 404)
        check(b'revision 12' in page(server, 'html', 'Mars').body, 'the newest of Mars')


@scene
def of_a_title_that_is_full_the_newest_are_kept(binary):
    cluster = node()
    many(cluster, 0, 0, long_title=15)
    with Server(binary) as server, full() as (url, stored):
        client = Client(binary, server)
        done, = client.json(*arguments(cluster, '--server', url, '--quiet'))
        eq((done['stored'], done['refused']), (2, 13), done)
        eq(stored, [5, 5])


@scene
def other_bytes_and_what_is_missing_are_told(binary):
    cluster = node()
    load(cluster)
    with Server(binary) as server:
        client = Client(binary, server)
        row = next(row for row in rows_of(cluster, HTML) if row['key'] == 'Earth')
        name = f'Earth/{row["rev"]}/{row["tid"]}'
        put = server.request('PUT', f'/localhost/v1/page/html/{name}',
                             {'content-type': 'text/html'}, b'<p>another')
        eq(put.status, 201)
        ended = client(*arguments(cluster, '--verify', keyspaces=(HTML, DATA)))
        eq(ended.returncode, 1, ended.stderr)
        text = ended.stdout.decode()
        check('1 stored with other bytes' in text and '1 with other bytes' in text, text)
        eq(page(server, 'html', 'Earth', row['rev'], row['tid']).body, b'<p>another')


def many(cluster, titles, renders, long_title=0):
    with cluster.session() as session:
        drop_all(session)
        space = make(session, cluster, 'many_html', value='string', rev='varint')
        for number in range(titles):
            for render in range(renders):
                insert(session, space, f'T{number}', 5 + render, tid_of(number * 10 + render),
                       quoted(f'<p>{number}, {render}' + '.' * 500))
        for render in range(long_title):
            insert(session, space, 'Long', 1 + render // 3, tid_of(render), quoted(f'<p>{render}'))
    return space


def started(client, cluster, *more):
    # pylint: disable-next=consider-using-with
    return subprocess.Popen(
        [client.binary, *arguments(cluster, '--parallel', '1', *more)], env=client.env,
        cwd=client.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@scene
def what_is_killed_goes_on_and_loses_nothing(binary):
    cluster = node()
    # More keys than a page in most ranges of tokens, and more renders of one title than a page.
    many(cluster, 3300, 1, long_title=300)
    total = 3600
    with Server(binary) as server:
        client = Client(binary, server)
        state = client.folder / 'state.json'
        for number in (signal.SIGKILL, signal.SIGINT):
            had = json.loads(state.read_text())['done'] if state.exists() else 0
            with started(client, cluster, '--state', str(state)) as process:
                wait_until(lambda had=had: state.exists() and state.read_text() and
                           json.loads(state.read_text())['done'] > had + 100, 'some are kept')
                process.send_signal(number)
                process.communicate(timeout=60)
            eq(process.returncode, -number)
        before = json.loads(state.read_text())
        check(before['of'].startswith('import restbase '), before)
        done, = client.json(*arguments(cluster, '--state', str(state)))
        eq((done['gone'], done['refused'], done['left_out']), (0, 0, 0), done)
        check(done['renders'] < total - 100, ('nothing is read twice', done))
        eq(state.read_text(), '')
        again, = client.json(*arguments(cluster, '--verify', '--parallel', '16'))
        eq((again['renders'], again['stored'], again['already']), (total, 0, total), again)
        eq(again['verified']['equal'], total, again)
        eq(page(server, 'html', 'Long').body, b'<p>299')


@scene
def a_node_that_dies_is_waited_for(binary):
    cluster = node()
    many(cluster, 1500, 1)
    with Server(binary) as server:
        client = Client(binary, server)
        with started(client, cluster) as process:
            wait_until(lambda: len(client.ok('ls').splitlines()) > 50, 'some came')
            cluster.kill(1)
            cluster.up()
            out, said = process.communicate(timeout=280)
        eq(process.returncode, 0, said)
        check('1500 stored' in out or re.search(r'\d+ stored, \d+ already there', out), (out, said))
        again, = client.json(*arguments(cluster))
        eq((again['stored'], again['already']), (0, 1500), again)


@scene
def what_cannot_be_reached_or_is_named_wrong_is_said(binary):
    cluster = node()
    load(cluster)
    with Server(binary) as server:
        client = Client(binary, server)
        point = f'{cluster.address(1)}:{cluster.port}'
        for more, code, says in (
                ((), 2, '--contact-points'),
                (('--contact-points', point), 2, '--local-dc'),
                (('--contact-points', point, '--local-dc', 'dc1', '--keyspace', 'a=b=c,'), 1,
                 'b=c'),
                (('--contact-points', point, '--local-dc', 'dc1', '--keyspace', 'history=b'), 2,
                 'KEYSPACE'),
                (('--contact-points', point, '--local-dc', 'dc1', '--keyspace', 'k' * 60), 2,
                 'KEYSPACE'),
                (('--contact-points', point, '--local-dc', 'dc1', '--cassandra-user', 'u'), 2,
                 'PALIMPSEST_CASSANDRA_PASSWORD'),
                (('--contact-points', point, '--local-dc', 'dc1', '--cassandra-ca', 'none.pem'),
                 2, 'none.pem'),
                (('--contact-points', '127.0.0.1:1', '--local-dc', 'dc1'), 4, '127.0.0.1:1')):
            began = time.monotonic()
            ended = client('import', 'restbase', *more)
            eq(ended.returncode, code, (more, ended.stderr))
            check(says in ended.stderr.decode(), ended.stderr)
            check(time.monotonic() - began < 40, 'it does not wait for ever')


if __name__ == '__main__':
    rig.main()
