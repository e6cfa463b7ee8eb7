"""Goal: clients written for RESTBase meet what they know: flags, no-cache on redirects, versions of the specification.
Method: a server in front of a scripted origin."""
import json
import urllib.parse

from harness import check, eq, main, scene, wait_until
from origin import SPECS, Origin, half_until_close, status_of, until_close
from page_help import explain, get, http_date, page_server, path, problem
from render_help import FORGETFUL, JSON, NO_CACHE, TRANSFORM, origin_server
from several import one_server

ELSEWHERE = {'Origin': 'https://elsewhere.test'}


def pins(server, title):
    return [hold for hold in explain(server, title)['holds'] if hold['kind'] == 'stash']


@scene
def flags_are_written_in_six_ways_and_all_else_is_refused(binary):
    with Origin() as origin:
        origin.page('R', (7, '#REDIRECT [[A]]'))
        origin.page('A', (8, 'text'))
        with origin_server(binary, origin) as server:
            for yes in ('true', '1', 'yes', 'TRUE', 'Yes'):
                get(server, 'R', status=302, query=f'?redirect={yes}')
                title = f'New_{yes}'
                origin.page(title, (100, 'text'))
                eq(get(server, title, query=f'?stash={yes}').headers['Cache-Control'], 'no-cache')
                eq(len(pins(server, title)), 1, yes)
            for no in ('false', '0', 'no', 'FALSE'):
                eq(get(server, 'R', query=f'?redirect={no}').headers['Location'], None)
                check(get(server, 'A', query=f'?stash={no}').headers['Cache-Control'] != 'no-cache', no)
            eq(pins(server, 'A'), [])
            asked = origin.count('render')
            for bad in ('maybe', '', '2', 'truely', 'on', 'null'):
                for name in ('stash', 'redirect'):
                    wrong = server.request('GET', path('html', 'Unasked') + f'?{name}={bad}')
                    eq(name in problem(wrong, 400, 'bad_request')['detail'], True)
                put = server.request('PUT', path('html', 'P', 1) + f'?stash={bad}', {'Content-Type': 'text/html'}, b'x')
                problem(put, 400, 'bad_request')
            eq(server.request('PUT', path('html', 'P', 1) + '?stash=yes', {'Content-Type': 'text/html'}, b'x').status, 201)
            eq(len(pins(server, 'P')), 1)
            eq(origin.count('render'), asked)


@scene
def flags_of_transforms_are_as_those_of_queries(binary):
    with Origin() as origin:
        with origin_server(binary, origin) as server:
            def send(kind, body):
                return server.request('POST', f'{TRANSFORM}/A', {'Content-Type': kind}, body)

            def form(**fields):
                return send('application/x-www-form-urlencoded', urllib.parse.urlencode({'wikitext': 'x', **fields}))

            def of_json(**fields):
                return send('application/json', json.dumps({'wikitext': 'x', **fields}))
            for yes in ('true', '1', 'yes', 'True'):
                eq(b'<head' in form(body_only=yes).body, False, yes)
                check(form(stash=yes).headers['ETag'].endswith('/stash"'), yes)
            for no in ('false', '0', 'no'):
                eq((b'<head' in form(body_only=no, stash=no).body, form(stash=no).headers['ETag']), (True, None), no)
            for bad in ('maybe', '', 'null'):
                problem(form(stash=bad), 400, 'bad_request#invalid_body')
            eq(b'<head' in of_json(body_only=True).body, False)
            for bad in ('true', '1', 1, 0, None, []):
                problem(of_json(body_only=bad), 400, 'bad_request#invalid_body')


@scene
def who_has_a_redirect_page_made_anew_gets_that_page(binary):
    """Update jobs follow redirects and keep their header: the target would be rendered anew instead."""
    with Origin() as origin:
        origin.page('R', (7, '#REDIRECT [[A]]'))
        origin.page('A', (8, 'text'))
        with origin_server(binary, origin, '--set', 'page.cache_control=max-age=60') as server:
            for cache, headers in (('miss', {}), ('nocache', {}), ('nocache', ELSEWHERE)):
                answer = get(server, 'R', headers={**NO_CACHE, **headers})
                eq((answer.headers['Location'], answer.headers['X-Restbase-Cache']), (None, cache))
                eq(answer.headers['Cache-Control'], 'no-cache')     # not what the next reader gets
                check(b'mw:PageProp/redirect' in answer.body, 'the page itself')
            eq(get(server, 'R', status=302).headers['Location'], 'A')
            eq(get(server, 'R', status=302).headers['Cache-Control'], 'max-age=60')


@scene
def of_a_version_the_patch_number_asks_for_nothing(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin) as server:
            def accept(text, status=200):
                answer = get(server, 'A', headers={'Accept': text}, status=status)
                check(status != 200 or 'HTML/2.6.0' in answer.headers['Content-Type'], answer.headers['Content-Type'])
            get(server, 'A')
            server.clock(advance='121s')    # old enough to be made anew for a newer version
            for patch in ('2.6.1', '2.6.999', '2.4.7'):
                accept(f'text/html; charset=utf-8; profile="{SPECS}HTML/{patch}"')
            accept(f'application/json; profile="{SPECS}HTML/1.8.0"')
            eq(origin.count('render'), 1)
            for version in ('2.7.0', '3.0.0', '1.8.0', '999.0.0'):
                accept(f'text/html; profile="{SPECS}HTML/{version}"', 406)


@scene
def the_wikis_own_word_for_a_title_counts_more_than_its_rules(binary):
    """A capital that only this wiki gives, a namespace that is newer than the rules: readers are sent on, no 502."""
    words = {'ßx': 'SSx', 'Portal:foo': 'Portal:Foo', 'P:Foo': 'Portal:Foo', 'ßy': 'SSy'}
    with Origin() as origin:
        origin.page('SSx', (7, 'old'), (8, 'sharp'))
        origin.page('Portal:Foo', (9, 'a portal'))
        origin.spelled = words
        with origin_server(binary, origin) as server:
            for wrote, title in (('ßx', 'SSx'), ('Portal:foo', 'Portal%3AFoo'), ('P:Foo', 'Portal%3AFoo')):
                asked = urllib.parse.quote(wrote, safe='')
                for content in ('html', 'data-parsoid', 'title', 'wikitext', 'lint'):
                    eq(get(server, asked, content=content, status=301).headers['Location'], title, f'{wrote} {content}')
                eq(get(server, asked, status=301, query='?redirect=false').headers['Location'], f'{title}?redirect=false')
                for headers in (ELSEWHERE, NO_CACHE):
                    for content in ('html', 'title', 'wikitext'):
                        answer = get(server, asked, headers=headers, content=content)
                        eq(answer.headers['Cache-Control'], 'no-cache')
                check(f'/html/{title}/' in get(server, asked, headers=ELSEWHERE).headers['Content-Location'], title)
                eq(get(server, title).status, 200)
            eq(get(server, urllib.parse.quote('ßx'), 7, status=301).headers['Location'], '../SSx/7')
            eq(get(server, urllib.parse.quote('ßx'), 7, content='wikitext', status=301).headers['Location'], '../SSx/7')
            problem(get(server, 'SSx', 9, status=404), 404, 'not_found')            # another page's
            asked = origin.count('meta')
            problem(get(server, urllib.parse.quote('ßz'), 9, status=404), 404, 'not_found')
            eq(origin.count('meta'), asked + 2)     # of the revision, then of the title
            problem(get(server, 'Plain', 9, status=404), 404, 'not_found')
            eq(origin.count('meta'), asked + 3)     # a title that every wiki writes so
            eq(get(server, urllib.parse.quote('ßy'), status=301).headers['Location'], 'SSy')
            problem(get(server, 'SSy', status=404), 404, 'not_found')
            eq(server.json('GET', path('title', '')).body['items'], ['Portal:Foo', 'SSx'])
            origin.spelled = {'ßl': 'SSl', 'SSl': 'ßl'}     # a wiki that leads round in a circle
            origin.page('SSl', (20, 'x'))
            problem(get(server, urllib.parse.quote('ßl'), headers=ELSEWHERE, status=502), 502, 'origin_failed')


@scene
@one_server('each server asks the wiki for its rules of titles')
def what_is_stored_is_found_under_any_spelling_without_asking(binary):
    only = {'Cache-Control': 'only-if-cached'}
    with Origin() as origin:
        origin.page('A_b', (7, 'text'))
        with origin_server(binary, origin) as server:
            rev, tid = get(server, 'A_b').headers['ETag'].strip('"').split('/')
            asked = sum(origin.calls.values())
            for where in ((), (rev,), (rev, tid)):
                for title in ('a%20b', 'A%20b', 'A_b'):
                    answer = get(server, title, *where, headers=only)
                    check(b'text' in answer.body and '/html/A_b/' in answer.headers['Content-Location'], title)
                    if title != 'A_b':
                        eq(answer.headers['Cache-Control'], 'no-cache')
            problem(get(server, 'a%20c', headers=only, status=504), 504, 'not_cached')
            problem(get(server, 'A%5Bb', headers=only, status=400), 400, 'bad_request#invalid_title')
            eq(sum(origin.calls.values()), asked)
            origin.down()
            server.restart()
            for where in ((), (rev,), (rev, tid)):
                problem(get(server, 'a%20b', *where, headers=only, status=504), 504, 'not_cached')  # no rules are known
            for where in ((), (rev,), (rev, tid)):      # is it still there? Nobody may be asked
                problem(get(server, 'A_b', *where, headers=only, status=504), 504, 'not_cached')


def denied(handler, status, headers, body):
    """What api.php of a private wiki says, with status 200."""
    handler.answer(200, headers, b'{"error": {"code": "readapidenied", "info": "You need read permission."}}')


@scene
def what_only_some_may_read_is_403(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin, *FORGETFUL) as server:
            get(server, 'B', status=404)        # the rules of titles are known now
            origin.fault('meta', denied)
            for content in ('html', 'data-parsoid', 'title', 'wikitext', 'lint'):
                for rev in (None, 7):
                    problem(get(server, 'A', rev, content=content, status=403), 403, 'access_denied#wiki')
            origin.fault('meta', None)
            origin.fault('transform', status_of(403))
            problem(server.request('POST', f'{TRANSFORM}/A', JSON, b'{"wikitext": "x"}'), 403, 'access_denied#wiki')
            origin.fault('siteinfo', denied)
            server.restart()
            problem(get(server, 'A', status=403), 403, 'access_denied#wiki')


PUBLIC = ('--set', 'public_url=https://{domain}/api/rest_v1')
BASE = 'https://localhost/api/rest_v1/page'


@scene
def content_location_is_the_public_address_of_the_page(binary):
    with Origin() as origin:
        origin.page('A/b', (7, 'text'))
        origin.page('R', (8, '#REDIRECT [[A/b]]'))
        with origin_server(binary, origin, *PUBLIC) as server:
            def told(*where, **more):
                return get(server, *where, **more).headers['Content-Location']
            for _ in range(4):      # made, stored, ready
                eq(told('A%2Fb'), f'{BASE}/html/A%2Fb')
            eq(get(server, 'A%2Fb', headers={'If-None-Match': '*'}, status=304).headers['Content-Location'],
               f'{BASE}/html/A%2Fb')
            eq(told('a%2Fb', headers=ELSEWHERE), f'{BASE}/html/A%2Fb')
            eq(told('R', headers=ELSEWHERE), f'{BASE}/html/A%2Fb')
            eq(told('R', query='?redirect=false', headers=ELSEWHERE), f'{BASE}/html/R?redirect=false')
            eq(told('A%2Fb', 7, query='?redirect=false'), f'{BASE}/html/A%2Fb/7?redirect=false')
            name = get(server, 'A%2Fb').headers['ETag'].strip('"')
            eq(told('A%2Fb', *name.split('/'), content='data-parsoid'), f'{BASE}/data-parsoid/A%2Fb/{name}')
            at = {'Accept-Datetime': http_date(3600)}
            eq(told('A%2Fb', headers=at), f'{BASE}/html/A%2Fb/{name}')      # a memento names itself
            policy = get(server, 'A%2Fb').headers['Content-Security-Policy']
            check("style-src http://localhost https://localhost https://localhost 'unsafe-inline'" in policy, policy)
            check(f'<{BASE}/html/A%2Fb>; rel' in get(server, 'A%2Fb').headers['Link'], 'the time gate')
            for content in ('title', 'wikitext', 'lint'):
                eq(told('A%2Fb', content=content), f'{BASE}/{content}/A%2Fb')
                eq(told('A%2Fb', 7, content=content), f'{BASE}/{content}/A%2Fb/7')
            moved = get(server, 'R', status=302)
            eq((moved.headers['Location'], moved.headers['Content-Location']), ('A%2Fb', None))
            eq(get(server, 'a%2Fb', status=301).headers['Location'], 'A%2Fb')
        with origin_server(binary, origin) as server:
            check(get(server, 'A%2Fb').headers['Content-Location'].startswith('/localhost/v1/page/html/A%2Fb/7/'), 'as ever')
            eq(get(server, 'A%2Fb', content='title').headers['Content-Location'], None)


@scene
def an_etag_may_be_strong_in_any_coding(binary):
    text = 'text that is long enough to be stored smaller. ' * 50
    for options, weak in (((), 'W/'), (('--set', 'compat.etag=strong'), '')):
        with Origin() as origin:
            origin.page('A', (7, text))
            with origin_server(binary, origin, *options) as server:
                gzip = {'Accept-Encoding': 'gzip'}
                name = get(server, 'A').headers['ETag']
                check(name.startswith('"7/'), name)
                for _ in range(4):
                    answer = get(server, 'A', headers=gzip)
                    eq((answer.headers['ETag'], answer.headers['Content-Encoding']), (weak + name, 'gzip'))
                for tag in (name, 'W/' + name):
                    answer = get(server, 'A', headers={**gzip, 'If-None-Match': tag}, status=304)
                    eq(answer.headers['ETag'], weak + name)


@scene
def an_empty_comment_is_a_text_and_a_hidden_one_is_none(binary):
    with Origin() as origin:
        origin.page('A', (7, 'one'), (8, 'two'), (9, 'three'))
        origin.comments.update({8: '', 9: None})
        with origin_server(binary, origin) as server:
            for rev, comment in ((7, 'edit 7'), (8, ''), (9, None)):
                eq(server.json('GET', path('title', 'A', rev)).body['items'][0]['comment'], comment, rev)


@scene
def a_hidden_text_is_410_or_403_as_configured(binary):
    for options, status, kind in (((), 410, 'suppressed'), (('--set', 'compat.hidden=403'), 403, 'access_denied#revision')):
        with Origin() as origin:
            origin.page('A', (7, 'hidden'), (8, 'text'))
            with origin_server(binary, origin, *options) as server:
                rev, tid = get(server, 'A', 7).headers['ETag'].strip('"').split('/')
                origin.hide('A', 7)
                problem(get(server, 'A', 7, headers=NO_CACHE, status=status), status, kind, reason='suppressed')
                for content in ('html', 'data-parsoid'):
                    problem(get(server, 'A', 7, content=content, status=status), status, kind, reason='suppressed')
                    problem(get(server, 'A', rev, tid, content=content, status=status), status, kind)
                problem(get(server, 'A', 7, content='wikitext', status=403), 403, 'access_denied#revision')


def rest_server(binary, origin, *args):
    """In front of core's own routes."""
    return page_server(binary, *origin.options('localhost', kind='rest'), *FORGETFUL, *args)


@scene
def what_could_not_be_saved_is_refused_before_anybody_types(binary):
    for core_transforms in (False, True):
        with Origin() as origin:
            origin.core_transforms = core_transforms
            origin.page('A', (7, 'text'))
            with rest_server(binary, origin) as server:
                for flag in ('true', '1'):
                    refused = get(server, 'A', query=f'?redirect=false&stash={flag}', status=400)
                    check('could not be saved' in problem(refused, 400, 'bad_request#stash')['detail'], refused.body)
                    eq(origin.count('render'), flag == '1')
                    check(b'text' in get(server, 'A').body, 'who only reads gets it')
                rev, tag = 7, {'If-Match': get(server, 'A').headers['ETag']}
                problem(server.request('POST', f'/localhost/v1/transform/html/to/wikitext/A/{rev}', {**JSON, **tag},
                                       b'{"html": "<p>typed</p>"}'), 404, 'not_found#transform')
                eq(origin.count('transform'), 0)
    with page_server(binary) as server:     # a store without a wiki pins what it is told to
        server.request('PUT', path('html', 'A', 7), {'Content-Type': 'text/html'}, b'x')
        eq(get(server, 'A', query='?stash=1').status, 200)


@scene
@one_server('each server trusts what it asked itself')
def what_is_no_wikitext_is_read_and_not_opened(binary):
    with Origin() as origin:
        origin.page('Module:A', (6, 'return 0'), (7, 'return 1'))
        origin.no_wikitext.add('Module:A')
        with page_server(binary, *origin.options('localhost'), *FORGETFUL) as server:
            shown = get(server, 'Module:A', query='?redirect=false')
            eq(shown.body, b'<div class="mw-highlight"><pre>return 1</pre></div>')
            eq(get(server, 'Module:A').headers['cache-status'], 'palimpsest; hit; detail=trusted')
            rev, tid = shown.headers['ETag'].strip('"').split('/')
            check(b'return 0' in get(server, 'Module:A', 6).body, 'an older one')
            for where in ((), (6,), (rev,), (rev, tid)):
                refused = get(server, 'Module:A', *where, query='?redirect=false&stash=true', status=400)
                check('could not be saved' in problem(refused, 400, 'bad_request#stash')['detail'], refused.body)
                problem(get(server, 'Module:A', *where, content='data-parsoid', status=404), 404, 'not_found#content')
            typed = server.request('POST', f'/localhost/v1/transform/html/to/wikitext/Module%3AA/{rev}',
                                   {**JSON, 'If-Match': shown.headers['ETag']}, b'{"html": "<p>typed</p>"}')
            problem(typed, 400, 'bad_request#original')
            eq(origin.count('transform'), 0)


@scene
@one_server('it counts what one server asks the wiki')
def cores_transforms_are_used_where_the_wiki_has_them(binary):
    with Origin() as origin:
        origin.page('A/b', (7, 'first'))
        with rest_server(binary, origin, '--set', 'domains.localhost.origin.siteinfo_ttl=1s') as server:
            def post(where, **fields):
                return server.request('POST', '/localhost/v1/transform/' + where, JSON, json.dumps(fields).encode())

            def asked():
                return [(where, json.loads(body)) for kind, where, _, body in origin.seen if kind == 'transform'][-1]
            for where in ('wikitext/to/html', 'wikitext/to/html/A%2Fb', 'wikitext/to/lint'):
                problem(post(where, wikitext='x'), 404, 'not_found#transform')
            eq(origin.count('probe'), 1)
            origin.core_transforms = True       # the wiki was upgraded
            shown = wait_until(lambda: (lambda a: a if a.status == 200 else None)(
                post('wikitext/to/html/A%2Fb', wikitext='x', body_only=True)), 'the rules are asked for again')
            eq((b'x</p>' in shown.body, shown.headers['Content-Type'].split(';')[0]), (True, 'text/html'))
            eq(asked(), ('/w/rest.php/v1/transform/wikitext/to/html/A%2Fb', {'wikitext': 'x', 'body_only': True}))
            eq(post('wikitext/to/html', wikitext='x').status, 200)
            eq(json.loads(post('wikitext/to/lint', wikitext='abc').body)[0]['type'], 'obsolete-tag')
            new = post('html/to/wikitext/New/0', html='<p>a new page</p>')
            eq((new.status, new.body, asked()[0]), (200, b'a new page', '/w/rest.php/v1/transform/html/to/wikitext/New'))
            problem(post('wikitext/to/html/A%2Fb', wikitext='x', stash=True), 400, 'bad_request#stash')
            problem(post('html/to/html/A%2Fb/7', updates={'redlinks': True}), 404, 'not_found#transform')
            origin.fault('transform', status_of(412))
            problem(post('wikitext/to/html/A%2Fb', wikitext='x'), 400, 'bad_request#origin')


@scene
def a_render_asked_for_anew_comes_from_no_cache_of_the_wiki(binary):
    with Origin() as origin:
        origin.page('A', (7, 'old'), (8, 'text'))
        with rest_server(binary, origin) as server:
            first = get(server, 'A')
            get(server, 'A', 7)
            origin.stamp = ' with another template'
            eq(origin.count('purge'), 0)        # who reads what is missing purges nothing
            anew = get(server, 'A', headers=NO_CACHE)
            eq((b'another template' in anew.body, anew.headers['X-Restbase-Cache']), (True, 'nocache'))
            get(server, 'A', 7, headers=NO_CACHE)       # no purge empties the wiki's cache of old revisions
            purges = [where for kind, where, _, _ in origin.seen if kind == 'purge']
            eq(purges, ['/w/api.php?action=purge&format=json&formatversion=2&titles=%1FA'])
            check(get(server, 'A').headers['ETag'] != first.headers['ETag'], 'another render')
            origin.fault('purge', lambda handler, status, headers, body:
                         handler.answer(200, headers, b'{"error": {"code": "ratelimited"}}'))
            stale = get(server, 'A', headers=NO_CACHE)      # not what the wiki had, told as new
            eq(stale.headers['Warning'], '111 palimpsest "Revalidation Failed"')
        with origin_server(binary, origin) as server:
            get(server, 'A')
            purged = origin.count('purge')
            get(server, 'A', headers=NO_CACHE)
            eq(origin.count('purge'), purged)   # Parsoid's routes have no cache


@scene
def a_wiki_that_says_nowhere_where_its_answers_end_is_believed_when_they_are_whole(binary):
    """PHP's built-in server ends each answer with its connection."""
    kinds = ('siteinfo', 'meta', 'render', 'wikitext', 'lint', 'transform')
    with Origin() as origin:
        origin.page('A', (7, 'text of some length'))
        for kind in kinds:
            origin.fault(kind, until_close)
        with origin_server(binary, origin, *FORGETFUL) as server:
            def save():
                return server.request('POST', '/localhost/v1/transform/html/to/wikitext/A/0', JSON,
                                      b'{"html": "<p>typed text</p>"}')
            for content in ('html', 'data-parsoid', 'title', 'wikitext', 'lint'):
                eq(get(server, 'A', content=content).status, 200)
            eq(server.request('POST', f'{TRANSFORM}/A', JSON, b'{"wikitext": "x"}').status, 200)
            problem(save(), 502, 'origin_failed')       # of wikitext alone nobody can tell, and it would be saved
            for kind in kinds:
                origin.fault(kind, half_until_close)
            origin.page('B', (9, 'another text'))
            for content, kind in (('html', 'render'), ('title', 'meta'), ('wikitext', 'wikitext'), ('lint', 'lint')):
                for fault in ('meta', kind):
                    origin.fault(fault, half_until_close)
                    problem(get(server, 'B', content=content, status=502), 502, 'origin_failed')
                    origin.fault('meta', None)
            problem(save(), 502, 'origin_failed')
        with rest_server(binary, origin) as server:
            for kind in kinds:
                origin.fault(kind, None)
            for fault, status in ((half_until_close, 502), (until_close, 200)):
                origin.fault('render', fault)
                wait_until(lambda status=status: server.request('GET', path('html', 'B')).status == status, f'{status}')


@scene
def names_are_listed_and_the_document_stands_under_the_domain(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin, '--set', 'page.cache_control=public, max-age=60', '--set',
                           'buckets.mobile.contents=lead') as server:
            def items(where):
                return server.json('GET', where).body['items']
            eq(items('/localhost/'), ['v1'])
            check({'page', 'mobile', 'table', 'key_value', 'transform'} <= set(items('/localhost/v1/')), 'the API')
            check({'html', 'data-parsoid', 'title', 'wikitext', 'lint', 'history'} <= set(items('/localhost/v1/page/')), 'page')
            check({'lead', 'title'} <= set(items('/localhost/v1/mobile/')), 'a bucket')
            for spec in ('/localhost/v1/?spec', '/?spec'):
                document = server.json('GET', spec).body
                check('/{domain}/v1/{bucket}/title/{title}' in document['paths'], spec)
            problem(server.request('GET', '/nowhere/v1/'), 404, 'domain_not_found')
            problem(server.request('GET', '/localhost/v1/nothing/'), 404, 'unknown_bucket')
            item, = server.json('GET', path('title', 'A')).body['items']
            eq(item['page_deleted'], None)
            check('private' in get(server, 'A', content='title').headers['Cache-Control'], 'metadata is private')
            eq(get(server, 'A', content='wikitext').headers['Cache-Control'], 'public, max-age=60')
            problem(get(server, 'title', content='random', status=404), 404, 'not_found#content')
            wrong = server.request('PUT', path('random', 'A', 7), {'Content-Type': 'text/html'}, b'x')
            problem(wrong, 400, 'bad_request#invalid_content')


main()
