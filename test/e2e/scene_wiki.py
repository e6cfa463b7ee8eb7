"""Goal: a real wiki is read and edited through the server as through Parsoid itself. Method: a real MediaWiki with
Parsoid and VisualEditor's own server side (api.php), which loads and saves through the server under test; what comes of
it is compared with what Parsoid gives and with what was typed. scene_editor.py does the same with a browser."""
import contextlib
import json
import re
import threading

from rig import BASE, TIME_UUID, Wired, private_wiki, scene, the_wiki
from cli import Client
from harness import Server, check, eq, main, wait_until
from mediawiki import editor_is_wired
from wiki import DOMAIN, ORIGIN_DOMAIN, WikiError, quote

TEXT = ('Before  the   table. \n\n{{%s}}\n\n{| class="x"\n|odd||  spacing\n|}\n\n'
        "== Heading==\n* '''one''' \n*two\n\nThe last paragraph.\n")


def load(wired, title, **parameters):
    """VisualEditor's load through api.php: {content, etag, basetimestamp, ...}."""
    return wired.wiki.api(action='visualeditor', paction='parse', page=title, **parameters)['visualeditor']


def save(wired, title, loaded, html, **parameters):
    """VisualEditor's save of a document loaded before; what api.php says of it."""
    return wired.wiki.api(action='visualeditoredit', paction='save', page=title, token='+\\', html=html,
                          oldid=loaded['oldid'], basetimestamp=loaded['basetimestamp'],
                          starttimestamp=loaded['starttimestamp'], etag=loaded['etag'],
                          **parameters)['visualeditoredit']


def typed(loaded, before, after):
    """The document with one word typed."""
    eq(loaded['content'].count(before), 1, f'{before!r} in the document')
    return loaded['content'].replace(before, after)


def post(wired, where, fields, headers):
    """A transform with a JSON body."""
    return wired.server.request('POST', f'{BASE}/transform/{where}', {'Content-Type': 'application/json', **headers},
                                json.dumps(fields).encode())


def tid_of(etag):
    found = re.fullmatch(r'(?:W/)?"(\d+)/([0-9a-f-]{36})(/stash)?"', etag)
    check(found, f'the entity tag {etag}')
    return int(found[1]), found[2]


def is_shown_alone(bundle):
    """Of what is no wikitext MediaWiki 1.43 gives what the page view shows."""
    return bundle['data-parsoid']['body'] == []


@scene
def every_page_equals_what_parsoid_gives(binary):
    with Wired(binary) as wired:
        wired.wiki.edit('Module:Shown', 'return {}')
        titles = wired.wiki.titles()
        check(len(titles) >= 20, f'{len(titles)} pages')
        for title in titles:
            rev = wired.wiki.revision(title)
            bundle = wired.wiki.parsoid(title, rev)
            html = wired.get(f'/page/html/{quote(title)}?redirect=false')
            eq(html.status, 200, title)
            text = html.body.decode()
            eq(len(TIME_UUID.findall(text)), 0 if is_shown_alone(bundle) else 1, f'{title}: mw:TimeUuid')
            check(TIME_UUID.sub('', text) == bundle['html']['body'], f'{title}: another document than Parsoid gives')
            eq(html.headers['content-type'], bundle['html']['headers']['content-type'], title)
            eq(tid_of(html.headers['etag'])[0], rev, title)
            tid = tid_of(html.headers['etag'])[1]
            data = wired.get(f'/page/data-parsoid/{quote(title)}/{rev}/{tid}')
            if is_shown_alone(bundle):
                eq(data.status, 404, title)
            else:
                check(tid in TIME_UUID.search(text).group(), f'{title}: the head names its render')
                eq(data.status, 200, title)
                eq(json.loads(data.body), bundle['data-parsoid']['body'], f'{title}: data-parsoid')
            again = wired.get(f'/page/html/{quote(title)}?redirect=false')
            eq((again.status, again.headers['etag'], again.body), (200, html.headers['etag'], html.body), title)


@scene
def what_could_not_be_saved_is_read_but_not_opened(binary):
    with Wired(binary) as wired:
        rev = wired.wiki.edit('Module:Opened', 'return {}')
        alone = is_shown_alone(wired.wiki.parsoid('Module:Opened', rev))
        eq(alone, not editor_is_wired(wired.wiki.version))
        for status, query in ((200, ''), (400 if alone else 200, '?redirect=false&stash=true')):
            eq(wired.get(f'/page/html/Module%3AOpened{query}').status, status)


@scene
def an_old_render_saves_after_its_template_changed(binary):
    with Wired(binary) as wired:
        wiki = wired.wiki
        wiki.edit('Template:Changing', 'first text')
        rev = wiki.edit('Stale save', TEXT % 'Changing')
        first = load(wired, 'Stale_save')
        eq(tid_of(first['etag'])[0], rev)
        check('first text' in first['content'], 'the first render has the old template')
        wiki.edit('Template:Changing', 'second text')

        def made_anew():
            """MediaWiki may give the template as it was, for a moment after its edit: its own caches count in seconds."""
            page = wired.get('/page/html/Stale_save?redirect=false', {'Cache-Control': 'no-cache'})
            eq(page.status, 200)
            check('fwd=request' in page.headers['Cache-Status'], page.headers['Cache-Status'])
            return b'second text' in page.body
        wait_until(made_anew, 'a render with the new template', pause=0.2)
        second = load(wired, 'Stale_save')
        check('second text' in second['content'], 'the second render has the new template')
        check(second['etag'] != first['etag'], 'both renders have one name')
        wired.server.restart()
        done = save(wired, 'Stale_save', first, typed(first, 'last paragraph', 'last typed paragraph'))
        eq(done['result'], 'success', done)
        eq(wiki.source('Stale save'), (TEXT % 'Changing').replace('last paragraph', 'last typed paragraph').strip())


@scene
def a_render_that_is_unknown_cannot_be_saved_from(binary):
    """Which shows, beside, that saves do go through the server."""
    with Wired(binary) as wired:
        wired.wiki.edit('Unknown render', TEXT % 'Note|x')
        loaded = load(wired, 'Unknown_render')
        rev, tid = tid_of(loaded['etag'])
        loaded['etag'] = f'"{rev}/{tid[:-4]}0000"'
        source = wired.wiki.source('Unknown render')
        try:
            done = save(wired, 'Unknown_render', loaded, typed(loaded, 'last', 'lost'))
        except WikiError as error:
            check('docserver-http' in str(error), str(error))
        else:
            check(False, f'saved: {done}')
        eq(wired.wiki.source('Unknown render'), source)


@scene
def a_new_page_is_written(binary):
    with Wired(binary) as wired:
        title = wired.new_title('Written').replace(' ', '_')
        eq(wired.get(f'/page/html/{title}').status, 404)
        new = load(wired, title)
        new['etag'] = new.get('etag') or ''
        html = '<html><body><p>A new page.</p><ul><li>One</li></ul></body></html>'
        done = save(wired, title, new, html)
        eq(done['result'], 'success', done)
        eq(wired.wiki.source(title), 'A new page.\n\n* One')
        page = wired.get(f'/page/html/{title}', {'Cache-Control': 'no-cache'})
        eq(page.status, 200)
        check(b'A new page.' in page.body, 'the page that was written')


@scene
def typed_source_is_stashed_for_the_save(binary):
    with Wired(binary) as wired:
        wiki = wired.wiki
        rev = wiki.edit('Switched', TEXT % 'Note|x')
        changed = (TEXT % 'Note|x').replace('one', 'typed  as   source')
        loaded = load(wired, 'Switched', oldid=rev, wikitext=changed, stash=1)
        check(loaded['etag'].endswith('/stash"'), loaded['etag'])
        wired.server.restart()
        done = save(wired, 'Switched', loaded, typed(loaded, 'last paragraph', 'last typed paragraph'))
        eq(done['result'], 'success', done)
        eq(wiki.source('Switched'), changed.replace('last paragraph', 'last typed paragraph').strip())


@scene
def what_the_linter_finds_is_told(binary):
    with Wired(binary) as wired:
        wrong = 'a <center>b</center>'
        wired.wiki.edit('Lint', wrong)
        errors = [json.loads(wired.get('/page/lint/Lint').body)]
        errors.append(json.loads(wired.server.request('POST', f'{BASE}/transform/wikitext/to/lint/Lint',
                                                      {'Content-Type': 'application/json'}, json.dumps({'wikitext': wrong})).body))
        for found in errors:
            eq([error['type'] for error in found], ['obsolete-tag'], found)
        eq(json.loads(wired.get(f'/page/lint/{quote(wired.wiki.titles()[0])}').body), [])


@scene
def changes_beside_are_merged_and_conflicts_are_told(binary):
    with Wired(binary) as wired:
        wiki = wired.wiki
        wiki.edit('Shared', TEXT % 'Note|x')
        mine = load(wired, 'Shared')
        wiki.edit_later('Shared', wiki.source('Shared').replace('Before', 'Long before'))
        eq(save(wired, 'Shared', mine, typed(mine, 'last paragraph', 'last own paragraph'))['result'], 'success')
        check(wiki.source('Shared').startswith('Long before') and 'last own paragraph' in wiki.source('Shared'),
              wiki.source('Shared'))
        mine = load(wired, 'Shared')
        wiki.edit_later('Shared', wiki.source('Shared').replace('last own', 'last foreign'))
        try:
            save(wired, 'Shared', mine, typed(mine, 'last own', 'last mine'))
        except WikiError as error:
            check('editconflict' in str(error), str(error))
        else:
            check(False, 'two changes of one line, and no conflict')


@scene
def many_who_ask_at_once_share_a_render(binary):
    with Wired(binary) as wired:
        rev = wired.wiki.edit('Popular', TEXT % 'Note|x' * 3)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(wired.get('/page/html/Popular'))) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eq(len({(a.status, a.headers['etag'], a.body) for a in answers}), 1)
        eq(answers[0].status, 200)
        eq(wired.asked(r'GET /w/rest.php/\S*/v3/page/pagebundle/Popular/(\d+)'), [str(rev)])


@scene
def what_is_deleted_or_hidden_is_not_served(binary):
    with Wired(binary) as wired:
        wiki = wired.wiki
        old = wiki.edit('To be hidden', 'The hidden text.')
        new = wiki.edit('To be hidden', 'The text that stays.')
        wiki.edit('To be deleted', 'Some text.')
        eq(wired.get('/page/html/To_be_deleted').status, 200)
        admin = wiki.log_in()
        admin.call(action='revisiondelete', type='revision', ids=old, hide='content', token=admin.token)
        admin.call(action='delete', title='To be deleted', token=admin.token)
        admin.close()
        hidden = wired.get(f'/page/html/To_be_hidden/{old}')
        check(hidden.status == 410 and b'hidden text.' not in hidden.body, f'{hidden.status} {hidden.body[:200]}')
        eq(wired.get(f'/page/html/To_be_hidden/{new}').status, 200)
        eq(wired.get('/page/html/To_be_deleted', {'Cache-Control': 'no-cache'}).status, 404)
        eq(wired.get('/page/html/To_be_deleted').status, 404)


@scene
def what_is_kept_for_a_logged_in_user_is_hers(binary):
    with Wired(binary) as wired, Server(binary, '--config', wired.config, '--set',
                                        f'domains.{DOMAIN}.origin.forward_cookies=true') as server:
        def transform(source, to, fields, *headers):
            return server.request('POST', f'{BASE}/transform/{source}/to/{to}/{title}',
                                  [('Content-Type', 'application/json'), *headers], json.dumps(fields).encode())

        def back(*headers):
            return transform('html', 'wikitext', {'html': kept.body.decode()}, ('If-Match', kept.headers['etag']), *headers)
        title = wired.new_title('Typed').replace(' ', '_')
        admin = wired.wiki.log_in()
        hers = ('Cookie', admin.cookie)
        kept = transform('wikitext', 'html', {'wikitext': '*odd\n*here', 'stash': True}, hers)
        eq(kept.status, 200, kept.body)
        for others in ((), (('Cookie', 'session=guessed'),)):
            eq(back(*others).status, 404)
        again = wired.wiki.log_in()     # another session of hers
        for cookie in (hers, ('Cookie', f'VEE=visualeditor; {again.cookie}')):
            eq((back(cookie).status, back(cookie).body), (200, b'*odd\n*here'))
        admin.close()
        again.close()


@scene
def red_links_are_brought_up_to_date_and_older_versions_are_not_had(binary):
    with Wired(binary) as wired:
        def transform(to, fields, headers):
            return wired.server.request('POST', f'{BASE}/transform/html/to/{to}/{quote(title)}/{rev}',
                                        {'Content-Type': 'application/json', **headers}, json.dumps(fields).encode())
        title, missing = (wired.new_title(name).replace(' ', '_') for name in ('Linking', 'Missing'))
        source = f'See  [[{missing}]] for   more.\n\n*odd   spacing\n* here'
        rev = wired.wiki.edit(title, source)
        page = wired.get(f'/page/html/{quote(title)}?redirect=false')
        check(b'class="new"' in page.body, 'the link is red')
        wired.wiki.edit(missing, 'Here now.')
        tag = {'If-Match': page.headers['etag']}
        updated = transform('html', {'updates': {'redlinks': True}}, tag)
        eq((updated.status, b'class="new"' in updated.body), (200, False), updated.body[:300])
        eq(updated.headers['content-type'], page.headers['content-type'])
        check(tid_of(page.headers['etag'])[1].encode() in updated.body, 'its head names the render')
        edited = updated.body.decode().replace('odd', 'even')
        saved = transform('wikitext', {'html': edited}, {})
        eq((saved.status, saved.body.decode()), (200, source.replace('odd', 'even')))
        old = {'Accept': 'text/html; profile="https://www.mediawiki.org/wiki/Specs/HTML/1.6.0"'}
        eq(transform('html', {'updates': {'redlinks': True}}, {**tag, **old}).status, 406)  # in Parsoid's own words
        eq(wired.get(f'/page/html/{quote(title)}?redirect=false', old).status, 406)
        variant = transform('html', {'updates': {'variant': {'target': 'sr-el'}}}, tag)
        if editor_is_wired(wired.wiki.version):     # the wiki is English
            eq(variant.status, 400, variant.body)
            check(b'LanguageConversion' in variant.body, variant.body)
        else:                                       # whose documents have no variants since: they stay as they are
            eq((variant.status, variant.body), (200, page.body))


@scene
def wikitext_becomes_the_html_of_parsoids_bundle(binary):
    """Ids instead of data in every element, for whoever asks, and one document with stash=true and without."""
    with Wired(binary) as wired:
        wired.wiki.edit('Note', 'x')
        text = TEXT % 'Note'
        for where in ('', '/Note', f'/Note/{wired.wiki.revision("Note")}'):
            for accept in ({}, {'Accept': 'application/json'},
                           {'Accept': 'text/html; profile="https://www.mediawiki.org/wiki/Specs/HTML/2.6.1"'}):
                for body_only in (True, False):
                    answer = post(wired, f'wikitext/to/html{where}', {'wikitext': text, 'body_only': body_only}, accept)
                    html = answer.body.decode()
                    eq((answer.status, 'data-parsoid' in html, '<head' in html), (200, False, not body_only), html[:300])
                    check(re.search(r'<p[^>]* id="mw', html), f'ids: {html[:300]}')
                    eq(answer.headers['content-language'], 'en')
                    check('Specs/HTML/2.' in answer.headers['content-type'], answer.headers['content-type'])
        stashed = post(wired, 'wikitext/to/html/Note', {'wikitext': text, 'stash': True}, {}).body.decode()
        flat = post(wired, 'wikitext/to/html/Note', {'wikitext': text}, {}).body.decode()
        eq(TIME_UUID.sub('', stashed), flat)


@scene
def a_document_of_nothing_is_saved_as_nothing(binary):
    with Wired(binary) as wired:
        for html in ('<h2></h2>', '<p><b></b></p>', '<p><i></i></p>', '<ul></ul>', '<h2><br></h2>', '<p><link rel="x"></p>'):
            for where in ('', '/New_page/0'):
                answer = post(wired, f'html/to/wikitext{where}', {'html': html}, {})
                eq((answer.status, answer.body.strip()), (200, b''), html)


@scene
def a_redirect_page_made_anew_is_answered_itself(binary):
    with Wired(binary) as wired:
        title = wired.new_title('Redirecting').replace(' ', '_')
        wired.wiki.edit(title, '#REDIRECT [[Main Page]]')
        eq(wired.get(f'/page/html/{title}').status, 302)
        anew = wired.get(f'/page/html/{title}', {'Cache-Control': 'no-cache'})
        eq((anew.status, anew.headers['location'], b'mw:PageProp/redirect' in anew.body), (200, None, True))
        for no in ('no', '0', 'false'):
            eq(wired.get(f'/page/html/{title}?redirect={no}').status, 200)


ODD_FIRST_LETTERS = ('ßx', 'ẞx', 'ﬁx', 'ŉx', 'თბილისი', 'Თბილისი', 'ǆx', 'ǅx', 'Ǆx', 'ᾳx', 'ᾼx', 'ÿx', 'ıx', 'ſx', 'éx')


@scene
def titles_are_found_by_their_spelling_whatever_the_capital_of_their_first_letter(binary):
    with Wired(binary) as wired:
        for title in ODD_FIRST_LETTERS:
            wired.wiki.edit(title, 'odd')
            page, = wired.wiki.api(action='query', titles=title)['query']['pages']
            own = page['title']
            for content in ('html', 'title', 'wikitext'):
                answer = wired.get(f'/page/{content}/{quote(title)}')
                if answer.status == 301:
                    eq(answer.headers['location'], quote(own), f'{title} {content}')
                    answer = wired.get(f'/page/{content}/{answer.headers["location"]}')
                eq(answer.status, 200, f'{title} {content}: {answer.body[:300]}')
            eq(wired.get(f'/page/html/{quote(own)}').status, 200, own)
            rev = wired.wiki.revision(title)
            named = wired.get(f'/page/html/{quote(title)}/{rev}')
            eq((named.status, named.headers['location']), (200, None) if title == own else (301, f'../{quote(own)}/{rev}'),
               title)


@scene
def a_namespace_that_is_new_is_known_at_once(binary):
    with Wired(binary) as wired:
        wiki = wired.wiki
        eq(wired.get('/page/html/Main_Page').status, 200)      # and the rules of titles are known, for an hour
        setting = wiki / 'settings.d/namespace.php'
        setting.write_text("<?php $wgExtraNamespaces[3000] = 'Portal'; $wgNamespaceAliases['P'] = 3000;")
        try:
            wait_until(lambda: wiki.api(action='query', titles='P:x')['query']['pages'][0]['ns'] == 3000, 'the namespace')
            wiki.edit('Portal:Foo', 'a portal')
            for wrote, hops in (('portal:foo', 2), ('P:Foo', 1), ('Portal:foo', 1), ('Portal:Foo', 0)):
                where = quote(wrote)
                for _ in range(hops):
                    moved = wired.get(f'/page/html/{where}')
                    eq(moved.status, 301, f'{wrote} at {where}')
                    where = moved.headers['location']
                eq((where, wired.get(f'/page/html/{where}').status), ('Portal%3AFoo', 200), wrote)
        finally:
            setting.unlink()
            wait_until(lambda: wiki.api(action='query', titles='P:x')['query']['pages'][0]['ns'] == 0, 'no namespace')


@scene
def a_private_wiki_is_403_for_nobody_in_particular(binary):
    with Wired(binary) as wired:
        title = wired.new_title('Private').replace(' ', '_')
        wired.wiki.edit(title, 'A secret.')
        with private_wiki():
            for content in ('html', 'data-parsoid', 'title', 'wikitext', 'lint'):
                answer = wired.get(f'/page/{content}/{title}')
                check(answer.status == 403 and b'access_denied#wiki' in answer.body, f'{content}: {answer.body}')
            check(post(wired, f'wikitext/to/html/{title}', {'wikitext': 'x'}, {}).status in (401, 403), 'a transform')


@scene
def a_private_wiki_is_read_and_edited_by_whom_it_lets(binary):
    wiki = the_wiki()
    origin = {'kind': 'parsoid', 'url': f'{wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'private': True}
    with private_wiki() as bot, Wired(binary, forward=True, domains={
            DOMAIN: {'origin': {**origin, 'authorization_file': str(bot)}}}) as wired:
        title, admin = wired.new_title('Private too').replace(' ', '_'), wiki.log_in()
        admin.call(action='edit', title=title, text=TEXT % 'Note|x', token=admin.token)
        for content in ('html', 'data-parsoid', 'title', 'wikitext', 'lint', 'history'):
            where, hers = f'/page/{content}/{title}', {'Cookie': admin.cookie}
            eq(wired.get(where).status, 403, content)
            shown = wired.get(where, hers)
            eq((shown.status, shown.headers['Cache-Control']), (200, 'private, no-store'), content)
            eq(wired.get(where, {'Cookie': admin.cookie.replace('=', '=x')}).status, 403, content)
        loaded = admin.call(action='visualeditor', paction='parse', page=title)['visualeditor']
        check('last paragraph' in loaded['content'], loaded)
        done = admin.call(action='visualeditoredit', paction='save', page=title, token=admin.token,
                          html=typed(loaded, 'last paragraph', 'last typed paragraph'), oldid=loaded['oldid'],
                          basetimestamp=loaded['basetimestamp'], starttimestamp=loaded['starttimestamp'],
                          etag=loaded['etag'])['visualeditoredit']
        eq(done['result'], 'success', done)
        check(b'last typed paragraph' in wired.get(f'/page/wikitext/{title}', {'Cookie': admin.cookie}).body, 'what was typed')
        refused = post(wired, f'html/to/wikitext/{title}', {'html': loaded['content']}, {'If-Match': loaded['etag']})
        eq(refused.status, 403)


def core_routes():
    """Configuration for a server that asks the wiki's own REST routes, not Parsoid's."""
    url = f'{the_wiki().base}/w/rest.php'
    return {DOMAIN: {'origin': {'kind': 'rest', 'url': url, 'domain': ORIGIN_DOMAIN}}}


@scene
def core_routes_are_read_anew_and_what_they_cannot_save_is_not_opened(binary):
    """MediaWiki 1.39 has no transforms of its own: VisualEditor is told so before anybody types."""
    with Wired(binary, domains=core_routes()) as wired:
        wiki = wired.wiki
        wiki.edit('Template:Core', 'first text')
        rev = wiki.edit('Core routes', '{{Core}} once')
        check(b'first text' in wired.get('/page/html/Core_routes').body, 'the first text')
        wiki.edit_later('Template:Core', 'second text')     # caches of the wiki count in seconds
        anew = wired.get('/page/html/Core_routes', {'Cache-Control': 'no-cache'})
        eq((anew.status, b'second text' in anew.body), (200, True))
        wired.asked('POST /w/api.php.action=purge')
        refused = wired.get('/page/html/Core_routes?redirect=false&stash=true')
        check(refused.status == 400 and b'could not be saved' in refused.body, refused.body)
        if not editor_is_wired(wiki.version):
            return
        try:
            load(wired, 'Core_routes', oldid=rev)
        except WikiError as error:
            check('docserver-http' in str(error) and 'could not be saved' in str(error), str(error))
        else:
            check(False, 'it was opened')


@contextlib.contextmanager
def core_transforms(wiki):
    """Core has them from 1.41 on. Where it does not, the same handlers of 1.39 stand under the address that they have since."""
    probe = '/w/rest.php/v1/transform/wikitext/to/html'
    if not editor_is_wired(wiki.version):
        eq(wiki.request('GET', probe)[0], 405)
        yield
        return
    routes = json.loads((wiki.mediawiki.code / 'includes/Rest/coreDevelopmentRoutes.json').read_text())
    routes = [{**route, 'path': route['path'].replace('/coredev/v0/', '/v1/')} for route in routes
              if '/transform/' in route['path']]
    (wiki / 'settings.d/transforms.json').write_text(json.dumps(routes))
    setting = wiki / 'settings.d/transforms.php'
    setting.write_text("<?php $wgRestAPIAdditionalRouteFiles[] = __DIR__ . '/transforms.json';")
    try:
        wait_until(lambda: wiki.request('GET', probe)[0] == 405, 'core has transforms')
        yield
    finally:
        setting.unlink()
        wait_until(lambda: wiki.request('GET', probe)[0] == 404, 'core has none')


@scene
def core_transforms_are_used_but_for_saves_that_would_change_more_than_was_typed(binary):
    wiki = the_wiki()
    with core_transforms(wiki), Wired(binary, domains=core_routes()) as wired:
        rev = wiki.edit('Core saves', TEXT % 'Note|x')
        html = wired.get('/page/html/Core_saves').body.decode()
        eq(post(wired, f'html/to/wikitext/Core_saves/{rev}', {'html': html}, {}).status, 404)
        if editor_is_wired(wiki.version):   # a newer core finds the data of the render that its cache happens to hold
            core = wiki.request('POST', f'/w/rest.php/v1/transform/html/to/wikitext/Core_saves/{rev}',
                                {'Content-Type': 'application/json'}, json.dumps({'html': html}))
            check(core[0] == 200 and core[2].decode().strip() != wiki.source('Core saves'), 'core changes nothing: allow it')
        new = post(wired, 'html/to/wikitext/Core_new/0', {'html': '<p>new</p><ul><li>one</li></ul>'}, {})
        eq((new.status, new.body.decode().strip()), (200, 'new\n\n* one'))
        shown = post(wired, 'wikitext/to/html/Core_saves', {'wikitext': "''x''", 'body_only': True}, {})
        check(shown.status == 200 and b'<i' in shown.body, shown.body)


@scene
def the_command_line_warms_and_renders(binary):
    with Wired(binary) as wired:
        client = Client(binary, wired.server)
        api = f'{wired.wiki.base}/w/api.php'
        pages = len(wired.wiki.titles())
        first, = client.json('prewarm', '--wiki', api, '--restart')
        eq((first['titles'], first['rendered'], first['already'], first['refused']), (pages, pages, 0, 0))
        second, = client.json('prewarm', '--wiki', api, '--restart')
        eq((second['titles'], second['rendered'], second['already']), (pages, 0, pages))
        third, = client.json('prewarm', '--wiki', api)
        eq((third['asked_before'], third['rendered'], third['already']), (pages, 0, 0))
        (client.folder / 'list').write_text('Main Page\n\nNo_such_page\nC++/Notes\n')
        listed = client('prewarm', 'list', '--json')
        eq(listed.returncode, 0, listed.stderr)
        counts = json.loads(listed.stdout)
        eq((counts['titles'], counts['already'], counts['refused']), (3, 2, 1))
        check(b'No_such_page' in listed.stderr, listed.stderr)
        same, = client.json('render', 'C++/Notes')
        eq(same['changed'], False)
        rev = wired.wiki.edit('C++/Notes', wired.wiki.source('C++/Notes') + '\n\nMore.')
        new, = client.json('render', 'C++/Notes')
        eq((new['changed'], new['rev']), (True, rev))
        check('More.' in client.ok('get', 'C++/Notes'), 'the new text')
        eq(client('render', 'No such page').returncode, 5)
        eq(client('prewarm', 'list', '--domain', 'elsewhere').returncode, 5)


main()
