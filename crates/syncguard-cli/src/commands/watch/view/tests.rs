//! The screen as text. `UPDATE_EXPECT=1` writes the files anew.

use expect_test::expect_file;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};

use super::*;
use crate::commands::watch::state::Pressed;

/// A moment, in seconds since 1970.
const NOW: u64 = 1_795_600_000;

fn buffer(state: &State, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = Duration::from_secs(NOW + 2);
    terminal.draw(|frame| draw(frame, state, now, "2026-11-25T03:06:42Z")).unwrap();
    terminal.backend().buffer().clone()
}

/// The rows of a screen, cell by cell.
fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer.content().chunks(buffer.area().width.into())
}

fn text(row: &[Cell]) -> String {
    row.iter().map(Cell::symbol).collect()
}

/// The screen, without spaces at the ends of its lines.
fn screen(state: &State, width: u16, height: u16) -> String {
    let lines: Vec<String> = rows(&buffer(state, width, height)).map(text).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    assert!(lines.iter().all(|line| width_of(line) <= usize::from(width)), "{lines:?}");
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn locks(fences: u64, now: u64) -> Vec<Lock> {
    let lock = |id: &str, key: &str, holder: &str, age: u64, left: u64| {
        Lock::sample(id, key, holder, NOW, age, left)
    };
    let long = "nightly-report:customers-with-a-very-long-name";
    let mut all = vec![
        lock("1", "exports:permit:0", "web-7f9c/412", 4, 27),
        lock("2", "exports:permit:2", "web-7f9c/977", 65, 22),
        lock("3", "leader:reports", "reports-0/1", 190_000, 12),
        lock("4", long, "batch-1.example.com/20417", 5_000, 21),
        lock(&format!("5{fences}"), "pay:17", "9f86d081884c", 0, 30),
    ];
    all[3].note = Some("https://ci.example.com/runs/18446".to_owned());
    (all[2].fence, all[2].recipe) = (41, Some("election"));
    all[4].fence = 1_000 + fences;
    if now > 0 {
        // Stopped: nothing has renewed it.
        all[3].expires_at = Duration::from_secs(NOW + now + 5);
        all.push(lock("6", "rebuild-search", "web-7f9c/412", 1, 29));
        all.remove(0);
    }
    all
}

fn state() -> State {
    let mut state = State {
        store: "redis://me@redis.internal:6379/1".to_owned(),
        interval: Duration::from_secs(2),
        ..State::default()
    };
    state.look(locks(0, 0), None, Duration::from_secs(NOW));
    state.look(locks(25, 2), None, Duration::from_secs(NOW + 2));
    state
}

#[test]
fn the_screens_of_the_files() {
    let (plain, mut filtered, mut failed) = (state(), state(), state());
    for char in "/WEB".chars() {
        filtered.press(Pressed::Char(char));
    }
    failed.fail("no connection to Redis".to_owned());
    failed.corrupt = Some("corrupt records: 1".to_owned());
    for (state, width, file) in [
        (&plain, 60, expect_file!["60_columns.txt"]),
        (&plain, 80, expect_file!["80_columns.txt"]),
        (&plain, 160, expect_file!["160_columns.txt"]),
        (&filtered, 80, expect_file!["filter.txt"]),
        (&failed, 80, expect_file!["failure.txt"]),
    ] {
        file.assert_eq(&screen(state, width, 12));
    }
}

#[test]
fn locks_that_do_not_fit_are_counted() {
    for (height, last) in
        [(9, "pay:17"), (8, "… and 2 more"), (5, "… and 5 more"), (1, "… and 5 more")]
    {
        let text = screen(&state(), 80, height);
        assert!(text.lines().last().unwrap().starts_with(last), "{height}: {text}");
    }
}

#[test]
fn the_table_can_be_scrolled() {
    let mut state = state();
    let first = |state: &State| screen(state, 80, 8).lines().nth(4).unwrap()[..6].to_owned();
    assert_eq!(first(&state), "nightl");
    state.press(Pressed::Down(1));
    assert_eq!(first(&state), "leader");
    assert!(screen(&state, 80, 8).contains("from lock 2, every"));
    assert!(!screen(&state, 80, 8).contains("more"), "the rest fits");
    // The last lock stays on the screen.
    state.press(Pressed::Down(10));
    assert_eq!(first(&state), "pay:17");
    state.press(Pressed::Up(1));
    assert_eq!(first(&state), "rebuil");
    state.press(Pressed::Up(10));
    assert_eq!(first(&state), "nightl");
    assert!(!screen(&state, 80, 8).contains("from lock"));
}

#[test]
fn no_key_is_cut_without_a_mark() {
    let state = state();
    for width in 1..200 {
        let text = screen(&state, width, 12);
        for lock in state.shown() {
            let name = lock.name();
            let is_whole = text.lines().any(|line| line.starts_with(&name));
            let is_marked = text.lines().any(|line| {
                let start = line.split('…').next().unwrap_or_default();
                line.contains('…') && name.starts_with(start)
            });
            assert!(is_whole || is_marked, "{width}: {name}\n{text}");
        }
    }
}

/// The colour of the cells of a text in ASCII.
fn color(state: &State, name: &str) -> Color {
    let buffer = buffer(state, 160, 12);
    let place = |row| text(row).find(name).map(|start| row[start..start + name.len()].to_vec());
    let cells = rows(&buffer).find_map(place).expect("the text is on the screen");
    assert!(cells.iter().all(|cell| cell.fg == cells[0].fg), "{name} has one colour");
    cells[0].fg
}

#[test]
fn old_and_late_locks_have_colours_if_there_are_colours() {
    let mut state = state();
    assert_eq!(color(&state, "5s!"), Color::Reset);
    state.has_colors = true;
    assert_eq!(color(&state, "5s!"), Color::Red);
    assert_eq!(color(&state, "nightly-report:"), Color::Red);
    assert_eq!(color(&state, "1h 23m"), Color::Yellow);
    assert_eq!(color(&state, "rebuild-search"), Color::Reset);
}

#[test]
fn an_empty_store_has_no_table() {
    let mut state = State { interval: Duration::from_millis(100), ..State::default() };
    state.look(Vec::new(), None, Duration::from_secs(NOW));
    let text = screen(&state, 80, 24);
    assert!(text.contains("0 locks, every 100ms, by need"), "{text}");
    assert!(!text.contains("KEY"), "{text}");
}
