"""Goal: MediaWiki's extension EventBus, as it is, tells a server of each change, and the page is right for the next reader.
Method: a real MediaWiki with the extension of the folder EVENTBUS_DIR (a checkout of its branch for this MediaWiki; without,
nothing is run). A relay between the two keeps what was sent and answered. Run by itself:

    EVENTBUS_DIR=~/EventBus python3 test/e2e/scene_eventbus.py build/palimpsest

EVENTBUS_SHOW=1 prints each event."""
import collections
import http.client
import http.server
import json
import os
import pathlib
import re
import sys
import threading
import time

from rig import ROOT, SETTLE, Told, scene
from change_help import figure
from harness import REQUEST_TIMEOUT, check, eq, main, wait_until

EXTENSION = os.environ.get('EVENTBUS_DIR', '')
# Since the branch of 1.41 it tells of changes in a second way, too.
TELLS_PAGE_CHANGE = (pathlib.Path(EXTENSION) / 'includes/HookHandlers').is_dir()
SHOW = os.environ.get('EVENTBUS_SHOW')
Post = collections.namedtuple('Post', 'events status answer')


class Relay:
    """Hands on what is posted to it, and keeps it."""

    def __init__(self, server):
        self.posts = []
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                connection = http.client.HTTPConnection(server.host, server.port, timeout=REQUEST_TIMEOUT)
                connection.request('POST', self.path, body, {'Content-Type': self.headers['Content-Type']})
                answer = connection.getresponse()
                text = answer.read()
                connection.close()
                events = json.loads(body)
                relay.posts.append(Post(events if isinstance(events, list) else [events], answer.status, text))
                if SHOW:
                    print(answer.status, text.decode()[-300:], json.dumps(events, indent=1), flush=True)
                self.send_response(answer.status)
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.listener = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.listener.daemon_threads = True
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.listener.server_port}/v1/events'

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()

    def streams(self, since=0):
        """[(stream, title or address, status)]"""
        return [(event['meta']['stream'], event.get('page_title') or event['meta']['uri'], post.status)
                for post in self.posts[since:] for event in post.events]


def documented():
    """The lines for LocalSettings.php that docs/wikis.md shows."""
    text = (ROOT / 'docs/wikis.md').read_text()
    return re.search(r"^    wfLoadExtension\( 'EventBus' \);\n(?:    .*\n)*", text, re.M).group()


class ByEvents(Told):
    """The extension alone tells this server. more: PHP behind the documented lines."""

    def __init__(self, binary, more=''):
        self.relay = None

        def settings(told):
            self.relay = Relay(told.server)
            shown = documented()
            where = f"'EventBus', '{pathlib.Path(EXTENSION).resolve()}/extension.json'"
            for old, new in (("'EventBus'", where), ('http://127.0.0.1:7231/v1/events', self.relay.url)):
                eq(shown.count(old), 1, old)
                shown = shown.replace(old, new)
            return f"""{shown}
                $wgDebugLogGroups['EventBus'] = "$wikiDir/log/eventbus.log";
                {more}"""
        super().__init__(binary, settings)

    def __exit__(self, kind, value, trace):
        super().__exit__(kind, value, trace)
        self.relay.close()


@scene
def whatever_it_tells_of_is_right_for_the_next_reader(binary):
    with ByEvents(binary) as told:
        wiki, run = told.wiki, time.time_ns()
        names = ('Edited', 'User', 'Deleted', 'Moved', 'Moved_silently', 'Talk:\u00dcn\u00ef_&?+', 'Purged', 'Protected', 'Template:Told')
        title = {name: f'{name}_{run}' for name in names}
        odd = title['Talk:\u00dcn\u00ef_&?+']
        wiki.edit(title['Template:Told'], 'first template')
        for name in names[:-1]:
            wiki.edit(title[name], 'text' if name != 'User' else '{{Told_%d}}' % run)
        first = wiki.revision(odd)
        wiki.edit(odd, 'clean text')
        touched = time.time()       # what is touched twice in a second shows it once
        wait_until(lambda: time.time() > touched + SETTLE, 'the wiki has come to rest')
        for name in names[:-1]:
            for _ in range(2):
                eq(told.read(title[name]).status, 200)
        for _ in range(2):
            eq(told.read(odd, first).status, 200)

        def is_gone(answer):
            return answer.status == 404
        rev = wiki.edit(title['Edited'], 'second text [[Link]] https://x.test/ {{DEFAULTSORT:k}}')
        told.soon(title['Edited'], lambda answer: b'second text' in answer.body, 'edited')
        told.do(action='managetags', operation='create', tag=f'tag{run}')
        told.do(action='tag', revid=rev, add=f'tag{run}')
        wiki.edit(title['Edited'], wiki.source(title['Edited']))
        wiki.edit(title['Template:Told'], 'second template')
        told.soon(title['User'], lambda answer: b'second template' in answer.body, 'a template of it edited')
        told.do(action='delete', title=title['Deleted'], reason='x')
        told.soon(title['Deleted'], is_gone, 'deleted')
        told.do(action='undelete', title=title['Deleted'], reason='x')
        told.soon(title['Deleted'], lambda answer: answer.status == 200, 'undeleted')
        told.do(action='move', **{'from': title['Moved'], 'to': title['Moved'] + '_to'})
        told.soon(title['Moved'], lambda answer: answer.status == 302, 'moved')
        told.do(action='move', noredirect=1, **{'from': title['Moved_silently'], 'to': title['Moved_silently'] + '_to'})
        told.soon(title['Moved_silently'], is_gone, 'moved without a redirect')
        told.do(action='revisiondelete', type='revision', ids=first, hide='content')
        told.soon(odd, lambda answer: answer.status == 410, 'hidden', first)
        told.do(action='revisiondelete', type='revision', ids=first, show='content')
        told.soon(odd, lambda answer: answer.status == 200, 'shown', first)
        told.do(action='revisiondelete', type='revision', ids=first, hide='content', suppress='yes')
        told.soon(odd, lambda answer: answer.status == 410, 'suppressed', first)
        told.do(action='protect', title=title['Protected'], protections='edit=sysop')
        wiki.api(action='purge', titles=title['Purged'])
        told.do(action='block', user=f'192.0.2.{run % 200}', expiry='1 day', reblock=1)
        wanted = {'mediawiki.' + name for name in (
            'page-create', 'page-delete', 'page-undelete', 'page-move', 'page-links-change', 'page-properties-change',
            'page-restrictions-change', 'revision-create', 'revision-visibility-change', 'revision-tags-change', 'user-blocks-change')}
        wanted |= {'resource_change', 'resource-purge'} | ({'mediawiki.page_change.v1'} if TELLS_PAGE_CHANGE else set())
        wait_until(lambda: wanted <= {stream for stream, *_ in told.relay.streams()}, f'all of {wanted} came')
        print(collections.Counter(stream for stream, *_ in told.relay.streams()), flush=True)
        eq([post for post in told.relay.posts if post.status != 201], [])
        eq(figure(told.server, 'change_events_total{named="other"}'), 0)
        eq(figure(told.server, 'change_events_total{named="title"}'), len(told.relay.streams()))


@scene
def its_jobs_are_told_invalid_and_its_events_are_taken(binary):
    """Those of before TYPE_JOB was known to be of no use here."""
    with ByEvents(binary, """$wgEnableEventBus = 'TYPE_ALL';
            $wgJobTypeConf['default'] = [ 'class' => 'MediaWiki\\Extension\\EventBus\\Adapters\\JobQueue\\JobQueueEventBus',
                'readOnlyReason' => false ];""") as told:
        title = f'Jobs_{time.time_ns()}'
        told.wiki.edit(title, 'first')
        eq(told.read(title).status, 200)
        told.wiki.edit(title, 'second')
        told.soon(title, lambda answer: b'second' in answer.body, 'edited')

        def jobs():
            return [post for post in told.relay.posts if post.events[0]['meta']['stream'].startswith('mediawiki.job.')]
        for post in wait_until(jobs, 'a job came'):
            eq((post.status, [item['event'] for item in json.loads(post.answer)['invalid']]), (400, post.events))
        check(all(post.status == 201 for post in told.relay.posts if post not in jobs()), told.relay.streams())


if not EXTENSION:
    print('left out: EVENTBUS_DIR names no folder with the extension EventBus')
    sys.exit(0)
main()
