"""Goal: the defects that were found with a real wiki and a real editor do not come back: hidden text, deleted pages, what
transforms are told, wikis made private, and revisions of a page made anew are right within the bounds that docs/api.md
gives. Method: a server in front of a scripted origin; nothing tells it of a change, and its clock is moved past the bound."""
import json

from harness import check, eq, main, scene, wait_until
from origin import Origin, denied
from page_help import explain, get, history, path, problem, runs
from render_help import JSON, NO_CACHE, name_of, origin_server

TTL, MAX = '61s', '301s'     # more than trust_ttl, trust_max
STASH = '?redirect=false&stash=true'     # as VisualEditor opens a page


def save(server, rev, tid, text=b'<p id="mwAg">typed</p>', title='A'):
    body = json.dumps({'html': '<html><body>' + text.decode() + '</body></html>'}).encode()
    return server.request('POST', f'/localhost/v1/transform/html/to/wikitext/{title}/{rev}',
                          {**JSON, 'If-Match': f'"{rev}/{tid}"'}, body)


def refused(server, status, kind, *where, **how):
    content, query = how.get('content', 'html'), how.get('query', '')
    problem(server.request('GET', path(content, *where) + query, how.get('headers')), status, kind)


@scene
def hidden_text_is_given_no_longer_than_trust_lasts(binary):
    """Defect 1: also by number, as an exact render, as data-parsoid, and for an edit."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A'))
            origin.page('A', (1, 'secret'), (2, 'clean'))
            get(server, 'A', headers=NO_CACHE)
            get(server, 'A', rev)
            origin.hide('A', 1)
            server.clock(advance='3s')       # an editor's word lasts for two
            refused(server, 410, 'suppressed', 'A', rev, query=STASH)
            server.restart()
            server.clock(advance=TTL)
            for content in ('html', 'data-parsoid'):
                refused(server, 410, 'suppressed', 'A', rev, content=content)
                refused(server, 410, 'suppressed', 'A', rev, tid, content=content)
            eq([r['state'] for r in history(server, 'A')['items']], ['current', 'suppressed'])


@scene
def hidden_text_that_nobody_asked_about_ends_with_trust(binary):
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A', 1))
            origin.hide('A', 1)
            get(server, 'A', rev, tid)       # for trust_ttl
            server.clock(advance=TTL)
            refused(server, 410, 'suppressed', 'A', rev, tid)
            refused(server, 410, 'suppressed', 'A', rev, tid, content='data-parsoid')
            refused(server, 410, 'suppressed', 'A', rev)


@scene
def a_deleted_page_can_be_made_anew_by_an_editor(binary):
    """Defect 2: also a page that was moved away without a redirect, which looks the same."""
    with Origin() as origin:
        origin.page('A', (1, 'old'))
        with origin_server(binary, origin) as server:
            get(server, 'A')
            origin.delete('A')
            server.clock(advance='3s')       # an editor's word lasts for two
            refused(server, 404, 'not_found', 'A', query=STASH)
            made = server.request('POST', '/localhost/v1/transform/wikitext/to/html/A', JSON,
                                  b'{"wikitext": "new", "stash": true}')
            eq(made.status, 200, made.body)
            server.clock(advance=TTL)
            refused(server, 404, 'not_found', 'A')
            origin.page('A', (2, 'new'))
            server.clock(advance='3s')
            check(b'>new<' in get(server, 'A', query=STASH).body, 'an editor sees the new page at once')
            check(b'>new<' in get(server, 'A').body, 'and so do readers then')


@scene
def what_a_transform_is_told_holds_for_readers(binary):
    """Defect 3: hidden is 409, deleted 410, and both are there for all who read next."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        origin.page('B', (5, 'libel'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A', 1))
            other = name_of(get(server, 'B'))
            server.clock(advance='3s')
            origin.hide('A', 1)
            problem(save(server, rev, tid), 409, 'restricted')
            eq(explain(server, 'A', rev, tid)['state'], 'suppressed')
            refused(server, 410, 'suppressed', 'A', rev, tid)
            problem(save(server, rev, tid), 409, 'restricted')
            origin.delete('B')
            problem(save(server, *other, title='B'), 410, 'deleted')
            eq(explain(server, 'B', *other)['state'], 'deleted')
            refused(server, 404, 'not_found', 'B', *other)
            server.clock(advance=TTL)
            refused(server, 404, 'not_found', 'B')


@scene
def a_lint_of_a_revision_that_is_gone_is_heard(binary):
    """What is told without an original, too: the transform itself asks for nothing that is stored."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A', 1))
            origin.pages['A'] = origin.pages['A'][1:]
            lint = server.request('POST', f'/localhost/v1/transform/wikitext/to/lint/A/{rev}', JSON, b'{"wikitext": "x"}')
            problem(lint, 410, 'deleted')
            eq(explain(server, 'A', rev, tid)['state'], 'deleted')


@scene
def a_wiki_made_private_is_closed_within_trust(binary):
    """Defect 4: nothing of it is given once it was asked, and all of it again when it says so."""
    with Origin() as origin:
        origin.page('A', (1, 'internal'))
        origin.page('B', (2, 'internal'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A'))
            get(server, 'B')
            for kind in ('words', 'revisions', 'meta'):
                origin.fault(kind, denied)
            server.clock(advance=MAX)
            refused(server, 403, 'access_denied#wiki', 'A')
            refused(server, 403, 'access_denied#wiki', 'A')
            refused(server, 403, 'access_denied#wiki', 'A', rev, tid)
            refused(server, 403, 'access_denied#wiki', 'B')
            refused(server, 403, 'access_denied#wiki', 'B', query=STASH)
            only = {'Cache-Control': 'only-if-cached'}
            for content in ('html', 'title'):
                refused(server, 403, 'access_denied#wiki', 'B', headers=only, content=content)
            for content, where in (('history', ('A',)), ('explain', ('A',)), ('title', ('',))):
                refused(server, 403, 'access_denied#wiki', *where, content=content)
            for kind in ('words', 'revisions', 'meta'):
                origin.fault(kind, None)
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 200, 'the wiki is asked again')
            get(server, 'B')


@scene
def revisions_of_a_page_made_anew_are_its_own(binary):
    """Defect 5: by number the deleted life is gone, also where nobody but a reader of the title asked."""
    with Origin() as origin:
        origin.page('A', (1, 'libel'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A'))
            get(server, 'A', rev)
            origin.page('A', (9, 'clean'))       # under another page id: the wiki knows revision 1 no more
            origin.ids['A'] = 4711
            runs(server)
            check(b'>clean<' in get(server, 'A', headers=NO_CACHE).body, 'made anew')
            refused(server, 404, 'not_found', 'A', rev)
            refused(server, 404, 'not_found', 'A', rev, tid)
            refused(server, 404, 'not_found', 'A', rev, tid, content='data-parsoid')


main()
