"""Goal: transforms as VisualEditor asks for them: three kinds of body, the original by If-Match or by the document's
head, stashed wikitext, what is gone. Method: a server in front of a scripted origin, whose calls are looked at."""
import json
import random
import re
import string
import threading
import urllib.parse

from harness import check, eq, main, scene, wait_until
from origin import SPECS, Origin, bad_json, not_html, other_type, status_of
from page_help import get, history, page_server, path, problem, tid
from render_help import ask_transform, origin_server
from several import one_server

VE = {'Accept': f'text/html; charset=utf-8; profile="{SPECS}HTML/2.4.0"', 'Accept-Language': 'de',
      'Promise-Non-Write-API-Action': 'true', 'Cookie': 'session=1'}


def target(source, to, *where):
    return '/'.join(['/localhost/v1/transform', source, 'to', to, *map(str, where)])


def multipart(fields):
    lines = []
    for name, value in fields.items():
        lines += ['--xyz', f'Content-Disposition: form-data; name="{name}"', '', value]
    return {'Content-Type': 'multipart/form-data; boundary=xyz'}, '\r\n'.join(lines + ['--xyz--', ''])


def urlencoded(fields):
    return {'Content-Type': 'application/x-www-form-urlencoded; charset=UTF-8'}, urllib.parse.urlencode(fields)


def as_json(fields):
    return {'Content-Type': 'application/json'}, json.dumps(fields)


def post(server, where, fields, headers=None, form=as_json):
    kind, body = form(fields)
    return server.request('POST', where, {**kind, **(headers or {})}, body)


def asked(origin):
    """(path, headers, body) of the last transform."""
    kind, where, headers, body = [call for call in origin.seen if call[0] == 'transform'][-1]
    return where, headers, json.loads(body)


def history_of(server, title):
    """How many renders are stored."""
    return len(history(server, title)['items'])


def plain(html):
    return re.sub(rb'<meta property="mw:TimeUuid"[^>]*>', b'', html)


@scene
def what_is_kept_for_editors_has_a_quota(binary):
    with Origin() as origin:
        with origin_server(binary, origin, '--set', 'page.stash_bytes_max=8k', '--set', 'page.stash_ttl=1d') as server:
            def keep(n):
                text = f'{n}x' + ''.join(random.Random(n).choices(string.ascii_letters + string.digits, k=2000))
                return post(server, target('wikitext', 'html', 'A'), {'wikitext': text, 'stash': True})
            kept = keep(0)
            eq(kept.status, 200)
            problem(next(a for a in (keep(n) for n in range(1, 9)) if a.status != 200), 507, 'stash_full')
            eq(post(server, target('wikitext', 'html', 'A'), {'wikitext': 'not kept'}).status, 200)
            sent = {'html': kept.body.decode().replace('>0x', '>1x')}
            eq(post(server, target('html', 'wikitext', 'A'), sent, {'If-Match': kept.headers['ETag']}).status, 200)
            server.clock(advance='1d')
            eq(keep(9).status, 200)


@scene
def html_goes_back_with_the_render_it_came_from(binary):
    with Origin() as origin:
        origin.page('A/b', (7, 'first'))
        with origin_server(binary, origin) as server:
            loaded = get(server, 'A%2Fb', query='?redirect=false&stash=true')
            origin.stamp = ' (the template changed)'
            get(server, 'A%2Fb', headers={'Cache-Control': 'no-cache'})
            edited = loaded.body.decode().replace('first', 'ed"it\\ed \u00e9\n')
            for form in (as_json, multipart, urlencoded):
                for etag in (loaded.headers['ETag'], 'W/' + loaded.headers['ETag']):
                    answer = post(server, target('html', 'wikitext', 'A%2Fb', 7), {'html': edited},
                                  {'If-Match': etag, **VE}, form)
                    eq((answer.status, answer.body.decode()), (200, 'ed"it\\ed \u00e9\n'))
                    check(answer.headers['Content-Type'].startswith('text/plain'), answer.headers['Content-Type'])
                    where, headers, body = asked(origin)
                    eq(where, '/w/rest.php/wiki.test/v3/transform/pagebundle/to/wikitext/A%2Fb/7')
                    eq(body['html'], edited)
                    original = body['original']
                    eq((original['title'], original['revid']), ('A/b', 7))
                    eq(original['html']['body'], loaded.body.decode())
                    check('HTML/2.6.0' in original['html']['headers']['content-type'], original['html']['headers'])
                    eq(original['data-parsoid']['body']['ids']['mwAA'], {'dsr': [0, 7, 0, 0]})
                    eq('wikitext' in original, False)
                    eq((headers['promise-non-write-api-action'], headers['accept-language']), ('true', 'de'))
                    eq(('cookie' in headers, 'text/html' in headers.get('accept', '')), (False, False))
            server.restart()    # between load and save
            answer = post(server, target('html', 'wikitext', 'A%2Fb', 7), {'html': edited},
                          {'If-Match': loaded.headers['ETag']}, multipart)
            eq(answer.status, 200)
            eq(asked(origin)[2]['original']['html']['body'], loaded.body.decode())


@scene
def the_head_names_the_render_when_no_tag_does(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin) as server:
            loaded = get(server, 'A')
            answer = post(server, target('html', 'wikitext', 'A', 7), {'html': {'body': loaded.body.decode()}})
            eq((answer.status, answer.body), (200, b'first'))
            eq(asked(origin)[2]['original']['html']['body'], loaded.body.decode())
            without = plain(loaded.body).decode()
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': without}), 400, 'bad_request#no_etag')
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': loaded.body.decode()}, {'If-Match': '"x"'}),
                    400, 'bad_request#no_etag')
            for where in (('New', 0), ('New',), ()):    # a page that is not there yet, or none at all
                answer = post(server, target('html', 'wikitext', *where), {'html': '<p>new</p>'})
                eq((answer.status, answer.body), (200, b'new'))
                check(asked(origin)[0].endswith('/transform/html/to/wikitext' + ('/New' if where else '')),
                      asked(origin)[0])
                eq('original' in asked(origin)[2], False)


@scene
def a_render_that_is_not_there_cannot_be_edited(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin) as server:
            loaded = get(server, 'A')
            html, etag = loaded.body.decode(), loaded.headers['ETag']
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': html}, {'If-Match': f'"7/{tid(1)}"'}), 404,
                    'not_found')
            origin.hide('A', 7)
            origin.fault('transform', status_of(404))
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': html}, {'If-Match': etag}), 409,
                    'restricted')
            origin.delete('A')      # what was hidden stays so
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': html}, {'If-Match': etag}), 409, 'restricted')
            origin.page('B', (9, 'second'))
            loaded = get(server, 'B')
            origin.delete('B')
            problem(post(server, target('html', 'wikitext', 'B', 9), {'html': loaded.body.decode()},
                         {'If-Match': loaded.headers['ETag']}), 410, 'deleted')
            origin.fault('transform', None)
            eq(server.request('DELETE', path('all', 'A')).status, 204)
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': html}, {'If-Match': etag}), 410, 'purged')
            origin.page('A', (8, 'put'))
            server.request('PUT', path('html', 'A', 8), {'Content-Type': 'text/html'}, b'<p>put</p>')
            put = get(server, 'A').headers['ETag']
            problem(post(server, target('html', 'wikitext', 'A', 8), {'html': 'x'}, {'If-Match': put}), 400,
                    'bad_request#original')


@scene
def transformed_wikitext_is_kept_for_the_edit(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin, '--set', 'page.stash_ttl=2d') as server:
            for rev, form in ((7, urlencoded), (0, multipart)):
                where = target('wikitext', 'html', 'A', *([rev] if rev else []))
                answer = post(server, where, {'title': 'A', 'wikitext': f'typed {rev}', 'stash': '1', 'body_only': '0'},
                              VE, form)
                eq(answer.status, 200)
                found = re.fullmatch(rf'"{rev}/([0-9a-f-]{{36}})/stash"', answer.headers['ETag'])
                check(found, answer.headers['ETag'])
                check(f'content="{found[1]}"'.encode() in answer.body, 'its name in the head')
                eq(answer.headers['Cache-Control'], 'no-cache')
                check('HTML/2.6.0' in answer.headers['Content-Type'], answer.headers['Content-Type'])
                server.restart()
                server.clock(advance='1d')
                html = answer.body.decode().replace('typed', 'typed more')
                back = post(server, target('html', 'wikitext', 'A', 9), {'html': html},
                            {'If-Match': answer.headers['ETag']})
                eq((back.status, back.body.decode()), (200, f'typed more {rev}'))
                where, _, body = asked(origin)
                eq(where.endswith('/pagebundle/to/wikitext/A' + ('/7' if rev else '')), True, where)
                original = body['original']
                eq((original['wikitext']['body'], original.get('revid')), (f'typed {rev}', rev or None))
                check('wikitext/1.0.0' in original['wikitext']['headers']['content-type'], original['wikitext'])
                eq(original['html']['body'], answer.body.decode())
                again = post(server, target('html', 'wikitext', 'A', rev), {'html': html})
                eq((again.status, 'original' in asked(origin)[2]), (200, rev > 0))  # by its head alone
            same = post(server, target('wikitext', 'html', 'A'), {'wikitext': 'typed 0', 'stash': True})
            eq(same.headers['ETag'], answer.headers['ETag'])    # the same again, under the name it has
            eq(same.body, answer.body)
            server.clock(advance='3d')
            problem(post(server, target('html', 'wikitext', 'A', 7), {'html': 'x'}, {'If-Match': same.headers['ETag']}),
                    410, 'culled')
            problem(get(server, 'A', 1, status=404), 404, 'not_found')
            problem(server.request('GET', '/localhost/v1/_stash/html/A'), 404, 'unknown_bucket')


@scene
def fragments_and_lint(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin) as server:
            answer = post(server, target('wikitext', 'html', 'A'), {'wikitext': 'x', 'body_only': '1', 'stash': '0'}, VE,
                          multipart)
            eq((answer.status, answer.body), (200, b'<p id="mwAg" about="#mwt1">x</p>'))
            eq((answer.headers['ETag'], answer.headers['Content-Language']), (None, 'en'))
            eq(asked(origin)[2], {'wikitext': 'x', 'body_only': True})
            eq(asked(origin)[0], '/w/rest.php/wiki.test/v3/transform/wikitext/to/pagebundle/A')
            eq(post(server, target('wikitext', 'html'), {'wikitext': 'x'}).status, 200)
            lint = post(server, target('wikitext', 'lint', 'A', 7), {'wikitext': 'abc'})
            eq(json.loads(lint.body)[0]['dsr'], [0, 3, 0, 0])
            eq(post(server, target('html', 'wikitext', 'a%20x', 0), {'html': '<p>x</p>'}).status, 200)
            eq(asked(origin)[0], '/w/rest.php/wiki.test/v3/transform/html/to/wikitext/A_x')


@scene
def wikitext_becomes_the_html_of_a_bundle_whatever_the_client_accepts(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin) as server:
            accepts = [{}, {'Accept': 'application/json'}, {'Accept': f'text/html; profile="{SPECS}HTML/1.8.0"'},
                       {'Accept': f'text/html; profile="{SPECS}HTML/2.6.1"'}]
            for accept in accepts:
                for where in ((), ('A',), ('A', 7)):
                    for body_only in (False, True):
                        answer = post(server, target('wikitext', 'html', *where),
                                      {'wikitext': 'x', 'body_only': body_only}, accept)
                        eq(answer.status, 200, answer.body)
                        check(asked(origin)[0].endswith('/wikitext/to/pagebundle' + ''.join(f'/{w}' for w in where)),
                              asked(origin)[0])
                        eq('accept' in asked(origin)[1] and SPECS in asked(origin)[1]['accept'], False)
                        check('HTML/2.6.0' in answer.headers['Content-Type'], answer.headers['Content-Type'])
                        eq(b'<head' in answer.body, not body_only)
                        eq(plain(answer.body), answer.body)     # nothing is kept, so nothing is named
            for fault in (not_html, bad_json, other_type):
                origin.fault('transform', fault)
                problem(post(server, target('wikitext', 'html', 'A'), {'wikitext': 'x'}), 502, 'origin_failed')


def empty(handler, status, headers, body):
    """No text, of the type that the answer would have had."""
    handler.answer(status, headers, b'')


def empty_of(content_type):
    """No text, of this type: as a PHP that died may say."""
    def fault(handler, status, headers, body):
        handler.answer(200, {'Content-Type': content_type}, b'')
    return fault


@scene
def what_is_nothing_as_wikitext_is_saved_and_no_text_is_lost(binary):
    nothing = ('<h2></h2>', '<p><b></b></p>', '<p><i></i></p>', '<ul></ul>', '<h2><br></h2>', '<p><link rel="x"></p>', '')
    with Origin() as origin:
        with origin_server(binary, origin) as server:
            def save(html):
                return post(server, target('html', 'wikitext', 'New', 0), {'html': html})
            origin.fault('transform', empty)
            for html in nothing:
                for document in (html, f'<html><head><title>New</title></head><body>{html}</body></html>'):
                    eq((save(document).status, save(document).body), (200, b''), document)
            for html in ('<p>typed</p>', '<ul></ul>typed', '<!-- kept -->', '<p>&nbsp;</p>'):
                problem(save(html), 502, 'origin_failed')
            template = "<p typeof='mw:Transclusion' data-mw='{\"parts\": [\"a > b\"]}'></p>"
            origin.fault('transform', empty_of('text/plain; charset=utf-8'))
            for html in (template, '<ul></ul>'):        # nothing says that a serialiser came to its end
                problem(save(html), 502, 'origin_failed')
            eq(save('<p></p>').status, 200)


@scene
def html_is_brought_up_to_date_from_the_render_it_came_from(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        origin.page('Variants', (8, 'zdravo'))
        with origin_server(binary, origin) as server:
            where = target('html', 'html', 'A', 7)
            loaded = get(server, 'A')
            red = {'updates': {'redlinks': True}}
            for named in ({'html': loaded.body.decode()}, {}):   # by its head; by the tag alone
                answer = post(server, where, {**red, **named}, {} if named else {'If-Match': loaded.headers['ETag'], **VE})
                eq(answer.status, 200, answer.body)
                check(b'<a class="new">red</a>' in answer.body, answer.body)
                check('HTML/2.6.0' in answer.headers['Content-Type'], answer.headers['Content-Type'])
                eq(answer.headers['ETag'], None)
                asked_at, headers, body = asked(origin)
                eq(asked_at, '/w/rest.php/wiki.test/v3/transform/pagebundle/to/pagebundle/A/7')
                eq((body['updates'], body['original']['html']['body']), ({'redlinks': True}, loaded.body.decode()))
                eq('html' in body, False)
            check('pagebundle/2.4.0' in headers['accept'], headers)
            eq(history_of(server, 'A'), 1)      # nothing of it is stored
            edited = answer.body.decode().replace('first', 'second')
            saved = post(server, target('html', 'wikitext', 'A', 7), {'html': edited})
            eq(saved.status, 200)   # and it can be edited: its head names the render
            eq(asked(origin)[2]['original']['html']['body'], loaded.body.decode())
            get(server, 'Variants')
            etag = get(server, 'Variants').headers['ETag']
            variant = json.dumps({'variant': {'target': 'sr-el', 'source': 'sr-ec'}})
            answer = post(server, target('html', 'html', 'Variants', 8), {'updates': variant}, {'If-Match': etag}, urlencoded)
            check((answer.status, b'in sr-el' in answer.body) == (200, True), answer.body)
            eq(asked(origin)[2]['updates'], json.loads(variant))
            refused = post(server, where, {'updates': {'variant': {'target': 'x'}}}, {'If-Match': loaded.headers['ETag']})
            eq(problem(refused, 400, 'bad_request#origin')['detail'], 'LanguageConversion is not enabled on this article.')


@scene
def what_cannot_be_brought_up_to_date_is_refused(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with origin_server(binary, origin) as server:
            where = target('html', 'html', 'A', 7)
            etag = {'If-Match': get(server, 'A').headers['ETag']}
            red = {'updates': {'redlinks': True}}
            problem(post(server, where, {'html': 'x'}, etag), 400, 'bad_request#updates')
            problem(post(server, where, {'updates': {'redlinks': False}}, etag), 400, 'bad_request#invalid_body')
            problem(post(server, where, red), 400, 'bad_request#html')
            problem(post(server, where, {**red, 'html': '<p>no head'}), 400, 'bad_request#no_etag')
            problem(post(server, target('html', 'html', 'A'), red, etag), 400, 'bad_request#revision')
            problem(post(server, where, red, {'If-Match': f'"7/{tid(1)}"'}), 404, 'not_found')
            eq(origin.count('transform'), 0)
            # It cannot give what is older than what it makes: its 406 is handed on.
            old = {'Accept': f'text/html; profile="{SPECS}HTML/1.6.0"'}
            refused = post(server, where, red, {**etag, **old})
            eq(problem(refused, 406, 'not_acceptable')['detail'], 'Not acceptable')
            origin.fault('transform', bad_json)
            problem(post(server, where, red, etag), 502, 'origin_failed')
            origin.fault('transform', status_of(415))
            problem(post(server, where, red, etag), 400, 'bad_request#origin')


@scene
def what_is_wrong_with_a_transform_is_said(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        options = ['--domain', 'plain.test', *origin.options('rest.test', kind='rest'), '--set', 'page.body_bytes_max=64k']
        with origin_server(binary, origin, *options) as server:
            def wrong(where, fields, kind, status=400, **named):
                problem(post(server, where, fields, **named), status, kind)
            wrong(target('html', 'wikitext', 'A', 0), {'wikitext': 'x'}, 'bad_request#html')
            wrong(target('wikitext', 'html', 'A'), {'html': 'x'}, 'bad_request#wikitext')
            wrong(target('wikitext', 'html'), {'wikitext': 'x', 'stash': True}, 'bad_request#stash')
            wrong(target('wikitext', 'html', 'A'), {'wikitext': 'x', 'stash': True, 'body_only': True}, 'bad_request#stash')
            wrong(target('wikitext', 'html', 'A'), {'wikitext': 'x', 'stash': 'maybe'}, 'bad_request#invalid_body')
            wrong(target('wikitext', 'html', 'A'), {'wikitext': 7}, 'bad_request#invalid_body')
            wrong(target('wikitext', 'html', 'A', 'x'), {'wikitext': 'x'}, 'bad_request#invalid_revision')
            wrong(target('wikitext', 'html', 'A%5B'), {'wikitext': 'x'}, 'bad_request#invalid_title')
            wrong(target('wikitext', 'mobile', 'A'), {'wikitext': 'x'}, 'not_found#transform', 404)
            for domain in ('plain.test', 'rest.test'):
                wrong(f'/{domain}/v1/transform/wikitext/to/html', {'wikitext': 'x'}, 'not_found#transform', 404)
            problem(server.request('POST', target('wikitext', 'html'), {'Content-Type': 'text/plain'}, 'x'), 400,
                    'bad_request#invalid_body')
            problem(server.request('POST', target('wikitext', 'html'), {'Content-Type': 'multipart/form-data'}, 'x'), 400,
                    'bad_request#invalid_body')
            wrong(target('wikitext', 'html'), {'wikitext': 'x' * 70000}, 'content_too_large', 413)
            eq(origin.count('transform'), 0)
            origin.fault('transform', status_of(400))
            wrong(target('wikitext', 'html'), {'wikitext': 'x'}, 'bad_request#origin')
            origin.fault('transform', status_of(406))
            wrong(target('wikitext', 'html'), {'wikitext': 'x'}, 'not_acceptable', 406)
            origin.fault('transform', status_of(500))
            wrong(target('wikitext', 'html'), {'wikitext': 'x'}, 'origin_failed', 502)
            eq(origin.count('transform'), 3)    # nothing that may have written is tried twice
            origin.fault('transform', status_of(503, retry_after='9'))
            refused = post(server, target('wikitext', 'html'), {'wikitext': 'x'})
            problem(refused, 503, 'origin_busy')
            eq(refused.headers['Retry-After'], '9')


@scene
def who_leaves_a_transform_frees_its_place(binary):
    with Origin() as origin:
        with page_server(binary, *origin.options('localhost', concurrency=1)) as server, origin.gate('transform') as gate:
            body = b'{"wikitext":"x"}'
            leaver = server.connect()
            leaver.sendall(b'POST ' + target('wikitext', 'html').encode() + b' HTTP/1.1\r\nHost: x\r\nContent-Type: '
                           b'application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            wait_until(lambda: gate.waiting == 1, 'it has asked')
            leaver.close()
            origin.ungate('transform')  # for those that come after it
            eq(post(server, target('wikitext', 'html'), {'wikitext': 'y'}).status, 200)


@scene
@one_server('each server has room of its own for transforms')
def transforms_that_hang_leave_room_for_readers(binary):
    with Origin() as origin:
        origin.page('A', (7, 'first'))
        with page_server(binary, *origin.options('localhost', concurrency=3)) as server, origin.gate('transform') as gate:
            answers = []
            crowd = [threading.Thread(target=lambda: answers.append(ask_transform(server)), daemon=True) for _ in range(12)]
            for thread in crowd:
                thread.start()
            wait_until(lambda: gate.waiting == 2, 'half as many as renders have asked')
            eq(get(server, 'A', headers={'Prefer': 'wait=20'}).body.count(b'first'), 1)
            eq(server.request('GET', path('title', 'A')).status, 200)
            eq((gate.waiting, origin.count('transform')), (2, 2))
            gate.open()
            for thread in crowd:
                thread.join(60)
            eq([answer.status for answer in answers], [200] * 12)


@scene
@one_server('each server has room of its own for transforms')
def bodies_of_transforms_have_a_limit_together(binary):
    with Origin() as origin:
        limit = ('--set', 'page.transform_bytes_max=64k')
        with page_server(binary, *origin.options('localhost'), *limit) as server, origin.gate('transform') as gate:
            def ask(size):
                return post(server, target('wikitext', 'html'), {'wikitext': 'x' * size})
            answers = []
            waiting = threading.Thread(target=lambda: answers.append(ask(100_000)), daemon=True)
            waiting.start()     # one alone is taken, however large
            wait_until(lambda: gate.waiting == 1, 'it has asked')
            refused = ask(10)
            problem(refused, 503, 'overloaded')
            eq(refused.headers['Retry-After'], '1')
            gate.open()
            waiting.join(60)
            eq([answer.status for answer in answers], [200])
            wait_until(lambda: ask(60_000).status == 200, 'its bytes are given back')


main()
