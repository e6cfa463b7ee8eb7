"""What the scene of jobs stands on: a wiki whose job queue is the extension EventBus, a server whose rule runs the jobs, and
ledgers of what was taken and of what the wiki ran.

A relay between the wiki and the server hands on what is posted, and once more when the server is away: as a wiki whose users
try again. It keeps each job that was answered 201. The wiki writes down each job that it was asked to run.
"""
import collections
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

from rig import ROOT, the_wiki
from cli import Client
from harness import REQUEST_TIMEOUT, SceneError, Server, eq, wait_until
from wiki import DOMAIN, ORIGIN_DOMAIN, free_port

EXTENSION = os.environ.get('EVENTBUS_DIR', '')
RUNNER = '/w/rest.php/eventbus/v0/internal/job/execute'
TRY_AGAIN_S = 120
Taken = collections.namedtuple('Taken', 'id type sha1 root made')
Ran = collections.namedtuple('Ran', 'id type sha1 status began ended')

SETTINGS = r"""<?php
wfLoadExtension( 'EventBus', '@EXTENSION@/extension.json' );
$wgEventServices = [ 'palimpsest' => [ 'url' => '@RELAY@' ] ];
$wgEventServiceDefault = 'palimpsest';
$wgEnableEventBus = 'TYPE_ALL';
$wgEventBusEnableRunJobAPI = true;
$wgJobTypeConf['default'] = [ 'readOnlyReason' => false,
	'class' => 'MediaWiki\\Extension\\EventBus\\Adapters\\JobQueue\\JobQueueEventBus' ];
$wgJobClasses['ledger'] = 'LedgerJob';

class LedgerJob extends Job implements GenericParameterJob {
	public function __construct( array $params ) {
		parent::__construct( 'ledger', $params );
	}

	public function run() {
		$folder = $GLOBALS['wikiDir'] . '/jobs';
		[ 'n' => $n, 'fails' => $fails ] = $this->params + [ 'fails' => null ];
		if ( $fails === 'until told' && !file_exists( "$folder/told" ) || $fails === 'once' && !file_exists( "$folder/failed-$n" ) ) {
			touch( "$folder/failed-$n" );
			$this->setLastError( "job $n is not ready" );
			return false;
		}
		file_put_contents( "$folder/ledger", "$n\n", FILE_APPEND | LOCK_EX );
		return true;
	}
}

if ( MW_ENTRY_POINT === 'rest' && strpos( $_SERVER['REQUEST_URI'], '/eventbus/v0/internal/job/execute' ) ) {
	register_shutdown_function( static function () {
		$event = json_decode( file_get_contents( 'php://input' ), true );
		file_put_contents( $GLOBALS['wikiDir'] . '/jobs/ran', json_encode( [ $event['meta']['id'], $event['type'],
			$event['sha1'] ?? null, http_response_code(), $_SERVER['REQUEST_TIME_FLOAT'], microtime( true ) ] ) . "\n",
			FILE_APPEND | LOCK_EX );
	} );
}
"""

# Jobs by the wiki's own job queue, as [type, parameters, title, options]; what the queue did not take is pushed again.
PUSH = r"""<?php
require_once '@CODE@/maintenance/Maintenance.php';

class PushJobs extends Maintenance {
	public function execute() {
		$group = \MediaWiki\MediaWikiServices::getInstance()->getJobQueueGroup();
		foreach ( array_chunk( json_decode( file_get_contents( '@JOBS@' ), true ), @BATCH@ ) as $chunk ) {
			$jobs = array_map( static function ( $job ) {
				[ $type, $params, $title, $options ] = $job;
				if ( isset( $params['root'] ) ) {
					$params = Job::newRootJobParams( $params['root'] ) + $params;
				}
				if ( isset( $params['delay'] ) ) {
					$params['jobReleaseTimestamp'] = time() + $params['delay'];
				}
				return new JobSpecification( $type, $params, $options, $title === null ? null : Title::newFromText( $title ) );
			}, $chunk );
			for ( $tries = 0; ; $tries++ ) {
				try {
					$group->push( $jobs );
					break;
				} catch ( JobQueueError $e ) {
					if ( $tries >= 100 ) {
						throw $e;
					}
				}
			}
		}
	}
}

$maintClass = PushJobs::class;
require_once RUN_MAINTENANCE_IF_MAIN;
"""


class Relay:
    """Posts what is posted to it at the server, until the server answers."""

    def __init__(self, server):
        self.server, self.posts, self.taken, self.lock = server, [], [], threading.Lock()
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                began = time.monotonic()
                status, answer = relay.hand_on(self.path, body)
                relay.keep(json.loads(body), status, time.monotonic() - began)
                self.send_response(status)
                self.send_header('Content-Length', str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                """A wiki that does not wait for its answer any longer is no fault of the relay."""

        self.listener = Listener(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.listener.server_port}/v1/events'

    def hand_on(self, path, body):
        until = time.monotonic() + TRY_AGAIN_S
        while True:
            connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=REQUEST_TIMEOUT)
            try:
                connection.request('POST', path, body, {'Content-Type': 'application/json'})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 503 or time.monotonic() > until:
                    return answer.status, text
            except (OSError, http.client.HTTPException):
                if time.monotonic() > until:
                    return 503, b''
            finally:
                connection.close()
            time.sleep(0.02)

    def keep(self, events, status, took):
        with self.lock:
            self.posts.append((status, took, len(events)))
            for event in events if status == 201 else []:
                if event['meta']['stream'].startswith('mediawiki.job.'):
                    root = event.get('root_event')
                    self.taken.append(Taken(event['meta']['id'], event['type'], event.get('sha1'),
                                            root and (root['signature'], root['dt']), event['meta']['dt']))

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()


class Jobs:
    """The wiki, the server and the ledgers, for one scene. rule: more of the rule's fields; php: more of the wiki's settings."""

    def __init__(self, binary, php='', **rule):
        self.wiki = the_wiki()
        self.folder = self.wiki / 'jobs'
        self.folder.mkdir(exist_ok=True)
        for old in self.folder.iterdir():
            old.unlink()
        file = pathlib.Path(tempfile.mkdtemp(prefix='jobs-', dir=self.wiki / 'tmp')) / 'server.yaml'
        origin = {'kind': 'parsoid', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'check_wait': '30s'}
        again = {} if rule.get('retries') == 0 else {'backoff': '200ms', 'backoff_factor': 1}
        file.write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}}, 'change': {'rules': {'jobs': {
            'match': {'stream': 'mediawiki.job.*'}, 'effect': 'job', 'targets': [self.wiki.base + RUNNER], 'collapse': 'sha1',
            'concurrency': 4, 'concurrency_of': {'type': {'ledger': 4, '*': 1}}, **again, **rule}}}}))
        self.server = Server(binary, '--config', file, '--listen', f'127.0.0.1:{free_port()}')
        self.client = Client(binary, self.server)
        self.relay = Relay(self.server)
        self.setting = self.wiki / 'settings.d/jobs.php'
        text = SETTINGS.replace('@EXTENSION@', str(pathlib.Path(EXTENSION).resolve())).replace('@RELAY@', self.relay.url)
        self.setting.write_text(text + php)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.setting.unlink()
        self.server.__exit__(kind, value, trace)
        self.relay.close()

    def pushing(self, jobs, batch=100):
        """A process of the wiki that gives these jobs to its queue."""
        number = time.time_ns()
        script, listed = self.folder / f'push-{number}.php', self.folder / f'push-{number}.json'
        listed.write_text(json.dumps([list(job) for job in jobs]))
        script.write_text(PUSH.replace('@CODE@', str(self.wiki.mediawiki.code)).replace('@JOBS@', str(listed))
                          .replace('@BATCH@', str(batch)))
        return subprocess.Popen(['python3', '-B', ROOT / 'tools/wiki/wiki.py', 'maintenance', self.wiki.folder, script],
                                stdout=subprocess.DEVNULL)

    def push(self, *jobs):
        eq(self.pushing(jobs).wait(), 0, 'the wiki pushes its jobs')

    def ledger(self):
        """{number of the job: how often it ran well}"""
        file = self.folder / 'ledger'
        return collections.Counter(map(int, file.read_text().split())) if file.exists() else collections.Counter()

    def ran(self):
        file = self.folder / 'ran'
        text = file.read_text() if file.exists() else ''
        return [Ran(*json.loads(line)) for line in text.splitlines() if line.endswith(']')]

    def rule(self):
        return next(one for one in self.server.json('GET', '/v1/admin.change').body['rules'] if one['name'] == 'jobs')

    def items(self, **chosen):
        return self.server.json('POST', '/v1/admin.change.items', body={'rule': 'jobs', 'limit': 1000, **chosen}).body['items']

    def comes_to(self, timeout=90, **figures):
        last = {}

        def is_so():
            last.update(self.rule())
            return all(last[name] == value for name, value in figures.items())
        try:
            wait_until(is_so, f'{figures}', timeout=timeout, pause=0.05)
        except SceneError as failure:
            raise SceneError(f'{failure}: {last}') from None
        return last

    def rest(self, timeout=300):
        """Nothing is left to be done."""
        return self.comes_to(timeout=timeout, lag=0, ready=0, waiting=0, scheduled=0, running=0)

    def not_run(self):
        """What was taken and neither ran well nor was needless: a job with the same sha1 that began no earlier than this one was made,
        or a newer one of the same root, stands for it."""
        done, latest, newest = set(), {}, {}
        for one in self.ran():
            if one.status == 200:
                done.add(one.id)
                if one.sha1 is not None:
                    key = one.type, one.sha1
                    latest[key] = max(latest.get(key, 0), one.began)
        for job in self.relay.taken:
            if job.root is not None:
                key = job.type, job.root[0]
                newest[key] = max(newest.get(key, ''), job.root[1])

        def stands(job):
            if job.id in done or job.root is not None and newest[job.type, job.root[0]] > job.root[1]:
                return True
            # Times of events are whole seconds.
            return job.sha1 is not None and latest.get((job.type, job.sha1), 0) >= instant(job.made)
        return [job for job in self.relay.taken if not stands(job)]


def instant(text):
    return time.mktime(time.strptime(text, '%Y-%m-%dT%H:%M:%SZ')) - time.timezone
