"""What a node runs on: a Java, and the jars that pom.xml names, which Maven fetches once into a
folder of the cache."""
import fcntl
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHES = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache')
CACHE = CACHES / 'palimpsest-cassandra'
COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies'
# The first is Cassandra's own choice; the second runs it with one option more.
JAVAS = (17, 21)
FETCH_TRIES = 3


class CassandraError(Exception):
    """Why there is no cluster, or no such node."""


def java_version(java):
    """17 and such; 0: that is no Java."""
    try:
        said = subprocess.run([java, '-version'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def find_java():
    """(its path, its version)"""
    candidates = [shutil.which('java')] + sorted(glob.glob('/usr/lib/jvm/*/bin/java'))
    if os.environ.get('JAVA_HOME'):
        candidates.insert(0, f'{os.environ["JAVA_HOME"]}/bin/java')
    found = {}
    for java in candidates:
        if java is not None and os.access(java, os.X_OK):
            found.setdefault(java_version(java), os.path.realpath(java))
    for version in JAVAS:
        if version in found:
            return found[version], version
    raise CassandraError(f'no Java {" or ".join(map(str, JAVAS))}: script/deps cassandra installs '
                         'one, JAVA_HOME names one')


def lib():
    """The folder with the jars; fetched at the first call on a machine."""
    pom = HERE / 'pom.xml'
    folder = CACHE / f'lib-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}'
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)        # another run may be fetching the same
        if not folder.is_dir():
            _fetch(pom, folder)
    return folder


def _fetch(pom, folder):
    """In one step: a run that is interrupted leaves no folder."""
    maven = shutil.which('mvn')
    if maven is None:
        raise CassandraError('no Maven, which fetches the jars; script/deps cassandra installs it')
    java_home = pathlib.Path(find_java()[0]).parents[1]
    part = pathlib.Path(tempfile.mkdtemp(prefix='part-', dir=CACHE))
    try:
        for left in reversed(range(FETCH_TRIES)):
            done = subprocess.run([maven, '-B', '-q', '-f', pom, COPY, '-DincludeScope=runtime',
                                   f'-DoutputDirectory={part}'], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False, env={**os.environ, 'JAVA_HOME': str(java_home)})
            if done.returncode == 0 and list(part.glob('cassandra-all-*.jar')):
                break
            if left == 0:
                raise CassandraError(f'Maven could not fetch the jars:\n{done.stdout[-2000:]}')
        part.chmod(0o755)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
