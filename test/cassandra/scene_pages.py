"""The page store's base on a real node: the tests in C that want one (test/unit/cassandra)."""
import os
import re
import subprocess

import rig
from rig import check, main, node, scene

TIMEOUT = 300


def run(binary, program):
    cluster = node()
    done = subprocess.run(
        [rig.built(binary, f'test/unit/cassandra/{program}')], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
        env={**os.environ, 'CASSANDRA_POINT': f'{cluster.address(1)}:{cluster.port}',
             'CASSANDRA_DC': cluster.datacentre(1)})
    said = done.stdout + done.stderr
    check(done.returncode == 0 and re.search(r'PASSED.*\d+ test', said), said[-3000:])


@scene
def facts_and_bytes_come_back(binary):
    run(binary, 'test_cassandra_titles')


@scene
def pages_answer_as_the_embedded_store_does(binary):
    run(binary, 'test_cassandra_pages')


@scene
def a_crowded_title_is_served_and_what_is_acknowledged_holds(binary):
    run(binary, 'test_cassandra_crowded')


@scene
def of_many_who_change_the_catalogue_one_wins(binary):
    run(binary, 'test_cassandra_catalog')


@scene
def policies_come_into_force_everywhere_at_once(binary):
    run(binary, 'test_cassandra_policies')


@scene
def the_wikis_word_holds_as_in_the_embedded_store(binary):
    run(binary, 'test_cassandra_words')


@scene
def what_one_server_hears_holds_for_what_another_puts(binary):
    run(binary, 'test_cassandra_words_race')


@scene
def listings_tell_what_the_embedded_store_tells(binary):
    run(binary, 'test_cassandra_lists')


@scene
def upkeep_finds_what_is_due_whichever_server_dies(binary):
    run(binary, 'test_cassandra_sweep')


@scene
def keys_of_one_server_hold_on_all(binary):
    run(binary, 'test_cassandra_auth')


@scene
def values_answer_as_the_embedded_store_does(binary):
    run(binary, 'test_cassandra_values_same')


@scene
def of_many_who_write_one_value_one_wins(binary):
    run(binary, 'test_cassandra_values')


main()
