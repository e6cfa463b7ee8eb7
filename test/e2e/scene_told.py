"""Goal: what a wiki tells of itself, as to a cache, is there for the next reader. Method: a real MediaWiki with
$wgCdnServers, and a server that would by itself ask for a page once a minute: each change has to be seen long before."""
import time

from rig import SETTLE, Told, scene
from harness import eq, main, wait_until


@scene
def what_a_wiki_purges_is_asked_for_at_once(binary):
    with Told(binary, lambda told: "$wgUseCdn = true; $wgCdnServers = [ '%s' ];" % told.purged_at()) as told:
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


main()
