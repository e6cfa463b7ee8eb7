"""Goal: clients written for RESTBase meet what they know: flags, no-cache on redirects, versions of the specification.
Method: a server in front of a scripted origin."""
import json
import urllib.parse

from harness import check, eq, main, scene
from origin import SPECS, Origin
from page_help import explain, get, path, problem
from render_help import NO_CACHE, TRANSFORM, origin_server

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


main()
