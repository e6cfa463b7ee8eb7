"""Goal: what a wiki tells of itself, as to a cache, is there for the next reader. Method: a real MediaWiki with
$wgCdnServers, and a server that would by itself ask for a page once a minute: each change has to be seen long before."""
import time

from rig import DOMAIN, SETTLE, SOON, Told, another_second, scene
from harness import check, eq, main, wait_until
from render_help import metric


def purges(told):
    """Settings of a wiki that purges pages at the server."""
    return "$wgUseCdn = true; $wgCdnServers = [ '%s' ];" % told.purged_at()


@scene
def what_a_wiki_purges_is_asked_for_at_once(binary):
    with Told(binary, purges) as told:
        wiki, run = told.wiki, time.time_ns()
        edited, user, deleted, moved, template = (f'{name}_{run}' for name in
                                                  ('Edited', 'User', 'Deleted', 'Moved', 'Template:Told'))
        wiki.edit(template, 'first template')
        first = wiki.edit(edited, 'first text')
        wiki.edit(user, '{{Told_%d}}' % run)
        wiki.edit(deleted, 'text')
        wiki.edit(moved, 'text')
        touched = time.time()       # what is touched twice in a second shows it once
        wait_until(lambda: time.time() > touched + SETTLE, 'the wiki has come to rest')
        for title in (edited, user, deleted, moved):
            for _ in range(3):
                eq(told.read(title).status, 200)
        another_second()
        wiki.edit(edited, 'second text')
        told.soon(edited, lambda answer: b'second text' in answer.body, 'edited')
        wiki.edit(template, 'second template')
        told.soon(user, lambda answer: b'second template' in answer.body, 'a template of it edited')
        told.do(action='delete', title=deleted)
        told.soon(deleted, lambda answer: answer.status == 404, 'deleted')
        told.do(action='move', noredirect=1, **{'from': moved, 'to': moved + '_to'})
        told.soon(moved, lambda answer: answer.status == 404, 'moved')
        for _ in range(2):
            eq(told.read(edited, first).status, 200)
        told.do(action='revisiondelete', type='revision', ids=first, hide='content', suppress='yes')
        told.soon(edited, lambda answer: answer.status == 410, 'suppressed', first)


@scene
def what_a_template_touches_is_made_anew_without_a_reader(binary):
    with Told(binary, purges, rerender='at_once') as told:
        wiki, run = told.wiki, time.time_ns()
        template, users = f'Template:Anew_{run}', [f'Anew_{run}_{n}' for n in range(6)]
        wiki.edit(template, 'first template')
        for title in users:
            wiki.edit(title, '{{Anew_%d}}' % run)
        touched = time.time()
        wait_until(lambda: time.time() > touched + SETTLE, 'the wiki has come to rest')
        for title in users:
            eq(told.read(title).status, 200)
        another_second()
        wiki.edit(template, 'second template')
        began = time.monotonic()
        for title in users:
            wait_until(lambda title=title: b'second template' in told.stored(title).body, 'made anew', timeout=SOON)
        made = metric(told.server, f'rerenders_made_total{{domain="{DOMAIN}"}}')
        print(f'{len(users)} pages without a reader: {time.monotonic() - began:.2f} s, {made} renders', flush=True)
        for title in users:
            check(told.read(title).headers['cache-status'].startswith('palimpsest; hit'), 'its reader finds it')


main()
