"""Goal: people edit a real wiki with VisualEditor through the server, and only what they typed changes. Method:
Chromium opens, types, switches, compares and saves with mouse and keyboard; the wiki's source afterwards is what
counts."""
import re

from rig import Wired
from editor import TEXT, the_editor
from harness import check, eq, main, scene, wait_until

TAG = re.compile(r'(?:W/)?"(\d+)/([0-9a-f-]{36})"')     # weak where it came compressed


def loaded_here(wired, editor, title):
    """What the editor holds is a render of the server, by its name; returned: its revision and tid."""
    tag = TAG.fullmatch(editor.etag() or '')
    check(tag, f'the entity tag {editor.etag()}')
    eq(wired.get(f'/page/html/{title}/{tag[1]}/{tag[2]}').status, 200, tag[0])
    return tag.groups()


def loaded_at_once(wired, editor, title, before=()):
    """And it came to the browser itself, at the first try. before: what the server answered to those before."""
    name = loaded_here(wired, editor, title)
    eq(wired.asked(rf'"GET /api/rest_v1/page/html/{title}\?redirect=false&stash=true HTTP/1.1" (\d+)', least=len(before) + 1),
       [*before, '200'])
    return name


@scene
def a_superseded_render_is_saved_and_only_the_typed_word_changes(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        wiki.edit('Template:Seen', 'the first text')
        rev = wiki.edit('Edited in a browser', TEXT % 'Seen')
        editor.open('Edited_in_a_browser')
        first = loaded_at_once(wired, editor, 'Edited_in_a_browser')
        wiki.edit('Template:Seen', 'the second text')
        editor.type_behind('The last', ' typed')

        def made_anew():
            page = wired.get('/page/html/Edited_in_a_browser?redirect=false&stash=true', {'Cache-Control': 'no-cache'})
            eq(page.status, 200)
            return page if b'the second text' in page.body else None
        another = wait_until(made_anew, 'another client gets the render with the new template', pause=0.2)
        second = TAG.fullmatch(another.headers['etag']).groups()
        check(second != first and second[0] == first[0] == str(rev), f'{second} behind {first}')
        wired.server.restart()
        editor.save()
        eq(wiki.source('Edited in a browser'), (TEXT % 'Seen').replace('The last', 'The last typed').strip())


@scene
def a_new_page_is_written(binary):
    with Wired(binary) as wired:
        editor = the_editor(wired.wiki)
        title = wired.new_title('Made').replace(' ', '_')
        editor.open(title)
        editor.type_into_empty('Some words of a new page.')
        editor.save()
        eq(wired.wiki.source(title), 'Some words of a new page.')
        editor.open(title)
        loaded_at_once(wired, editor, title, before=['404'])
        check('Some words of a new page.' in editor.text(), editor.text())


@scene
def source_and_visual_change_places(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        wiki.edit('Switched in a browser', TEXT % 'Note|x')
        editor.open('Switched_in_a_browser')
        editor.type_behind('The last', ' visual')
        editor.switch('source')
        check('The last visual paragraph.' in editor.text(), editor.text())
        check("Before  the   table. \n" in editor.text() and '|odd||  spacing' in editor.text(), editor.text())
        editor.type_behind('The last visual', ' source')
        editor.switch('visual')
        check(editor.etag().endswith('/stash"'), editor.etag())
        editor.type_behind('The last visual source', ' again')
        editor.switch('source')
        check('The last visual source again paragraph.' in editor.text(), editor.text())
        editor.switch('visual')
        wired.server.restart()
        editor.save()
        eq(wiki.source('Switched in a browser'),
           (TEXT % 'Note|x').replace('The last', 'The last visual source again').strip())


@scene
def a_section_is_edited_alone(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        wiki.edit('Section in a browser', TEXT % 'Note|x')
        editor.open('Section_in_a_browser', section=2)
        loaded_here(wired, editor, 'Section_in_a_browser')    # api.php asked the server, for the browser
        editor.type_behind('The last', ' typed')
        editor.save()
        eq(wiki.source('Section in a browser'), (TEXT % 'Note|x').replace('The last', 'The last typed').strip())


@scene
def two_revisions_are_compared_as_they_look(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        old = wiki.edit('Compared', TEXT % 'Note|x')
        new = wiki.edit('Compared', (TEXT % 'Note|x').replace('The last', 'The very last'))
        removed, inserted = editor.compare('Compared', old, new)
        eq((removed, inserted), ([], ['very']))
        asked = wired.asked(r'"GET /api/rest_v1/page/html/Compared/(\d+)\?\S* HTTP/1.1" 200', least=2)
        eq(sorted(map(int, asked)), [old, new])


@scene
def changes_are_reviewed_before_they_are_saved(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        wiki.edit('Reviewed', TEXT % 'Note|x')
        editor.open('Reviewed')
        editor.type_behind('The last', ' reviewed')
        editor.open_save_dialog()
        eq(editor.review(), ['The last paragraph.', 'The last reviewed paragraph.'])


@scene
def a_conflict_is_told_and_nothing_is_lost(binary):
    with Wired(binary) as wired:
        wiki, editor = wired.wiki, the_editor(wired.wiki)
        wiki.edit('Fought over', TEXT % 'Note|x')
        editor.open('Fought_over')
        editor.type_behind('The last', ' own')
        theirs = (TEXT % 'Note|x').replace('The last', 'The last foreign')
        wiki.edit_later('Fought over', theirs)
        editor.open_save_dialog()
        editor.press_save()
        editor.wait_conflict()
        eq(wiki.source('Fought over'), theirs.strip())


main()
