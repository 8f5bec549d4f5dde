//! Draws the screen of `watch`: a function of its state and the time.

use std::time::Duration;

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};

use super::layout::{Column, GAP, columns, cut, width_of};
use super::lock::Lock;
use super::state::{Changes, State};
use crate::part_key::Part;
use crate::time::human;

/// Draws the screen. `now` is the time since 1970, and `clock` is the same for people.
pub(super) fn draw(frame: &mut Frame, state: &State, now: Duration, clock: &str) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    frame.render_widget(Text::from(lines(state, width, height, now, clock)), area);
}

fn lines(
    state: &State,
    width: usize,
    height: usize,
    now: Duration,
    clock: &str,
) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![
        apart(
            &state.store,
            &[format!("local clock {clock}"), format!("local {}", time_of_day(clock))],
            width,
            bold,
        ),
        if state.is_typing {
            let help = ["Enter keeps  Esc clears".to_owned(), "Enter, Esc".to_owned()];
            apart(&format!("/{}_", state.filter), &help, width, bold)
        } else {
            let help = ["s sort  / filter  q end".to_owned(), "s, /, q".to_owned()];
            apart(&summary(state), &help, width, Style::new())
        },
        Line::raw(cut(&changes(state.changes.as_ref()), width)),
    ];
    if let Some(message) = failure(state, now) {
        lines.push(Line::styled(cut(&message, width), colored(state, Color::Red, bold)));
    }
    if let Some(message) = &state.corrupt {
        lines.push(Line::styled(cut(message, width), colored(state, Color::Red, bold)));
    }
    let shown = state.shown();
    let shown = shown.get(state.above()..).unwrap_or_default();
    let rows = shown.get(..height.min(shown.len())).unwrap_or_default();
    let (header, rows) = table(state, rows, width, now).unzip();
    lines.extend(header);
    let above = lines.len();
    lines.extend(rows.into_iter().flatten());
    fit(lines, above, shown.len(), height)
}

/// Cuts the lines to the height. The last line then counts the locks that are not shown. `above`
/// lines come before those of the locks.
fn fit(
    mut lines: Vec<Line<'static>>,
    above: usize,
    locks: usize,
    height: usize,
) -> Vec<Line<'static>> {
    if locks == 0 || above + locks <= height {
        return lines;
    }
    lines.truncate(height.saturating_sub(1));
    let rest = locks - lines.len().saturating_sub(above);
    lines.push(Line::raw(format!("… and {rest} more")));
    lines
}

/// Two texts at both ends of a line: at the right the first text that there is room for, if any.
fn apart(left: &str, right: &[String], width: usize, style: Style) -> Line<'static> {
    let used = width_of(left) + GAP;
    let Some(right) = right.iter().find(|right| used + width_of(right) <= width) else {
        return Line::styled(cut(left, width), style);
    };
    let space = width - width_of(left) - width_of(right);
    Line::from(vec![
        Span::styled(left.to_owned(), style),
        Span::raw(format!("{:space$}{right}", "")),
    ])
}

/// `03:06:42Z` of `2026-11-25T03:06:42Z`.
fn time_of_day(clock: &str) -> &str {
    clock.split_once('T').map_or(clock, |(_, time)| time)
}

fn summary(state: &State) -> String {
    let locks = &state.locks;
    let permits = locks
        .iter()
        .filter(|lock| matches!(lock.recipe_and_part().1, Some(Part::Permit(_))))
        .count();
    let count = counted(locks.len(), "lock");
    let mut parts = vec![match permits {
        0 => count,
        permits => format!("{count} ({})", counted(permits, "permit")),
    }];
    let late = locks.iter().filter(|lock| lock.is_late).count();
    if late > 0 {
        parts.push(format!("{late} not renewed!"));
    }
    let above = state.above();
    if above > 0 {
        parts.push(format!("from lock {}", above + 1));
    }
    parts.push(format!("every {}", human(state.interval)));
    parts.push(format!("by {}", state.sort.name()));
    if !state.prefix.is_empty() {
        parts.push(format!("prefix {}", state.prefix));
    }
    if !state.filter.is_empty() {
        parts.push(format!("{} with {}", state.count(), state.filter));
    }
    parts.join(", ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn changes(changes: Option<&Changes>) -> String {
    let Some(changes) = changes else { return "the first look".to_owned() };
    if changes.is_empty() {
        return "nothing came or went since the last look".to_owned();
    }
    let parts =
        [("came", &changes.came), ("went", &changes.went), ("passed on", &changes.passed_on)];
    let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
    parts.map(|(what, keys)| format!("{what}: {}", keys.join(", "))).collect::<Vec<_>>().join("; ")
}

fn failure(state: &State, now: Duration) -> Option<String> {
    let failure = state.failure.as_ref()?;
    let ago = human(whole(now.saturating_sub(state.looked_at?)));
    Some(format!("the locks cannot be read, these are {ago} old: {failure}"))
}

/// The header and the rows of the table. `None` if there are no locks.
fn table(
    state: &State,
    shown: &[&Lock],
    width: usize,
    now: Duration,
) -> Option<(Line<'static>, Vec<Line<'static>>)> {
    if shown.is_empty() {
        return None;
    }
    let cells: Vec<[String; 7]> =
        shown.iter().map(|lock| Column::ALL.map(|column| text(lock, column, now))).collect();
    let natural = Column::ALL.map(|column| {
        let widest =
            cells.iter().filter_map(|row| row.get(column as usize)).map(|cell| width_of(cell));
        match widest.max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(column.title().len()),
        }
    });
    let columns = columns(natural, width);
    let title = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let header = columns.iter().enumerate().map(|(number, (column, width))| {
        let is_last = number + 1 == columns.len();
        Span::styled(padded(*column, column.title(), *width, is_last), title)
    });
    let header = Line::from(header.collect::<Vec<_>>());
    let mut lines = Vec::new();
    for (lock, row) in shown.iter().zip(&cells) {
        let mut spans = Vec::new();
        for (number, (column, width)) in columns.iter().enumerate() {
            let is_last = number + 1 == columns.len();
            let cell = row.get(*column as usize).map_or("", String::as_str);
            let cell = if *column == Column::Key { name(lock, *width) } else { cut(cell, *width) };
            let style = style(state, lock, *column, now);
            spans.push(Span::styled(padded(*column, &cell, *width, is_last), style));
        }
        lines.push(Line::from(spans));
    }
    Some((header, lines))
}

fn text(lock: &Lock, column: Column, now: Duration) -> String {
    match column {
        Column::Key => lock.name(),
        Column::Holder => lock.holder.clone(),
        Column::Fence => lock.fence.to_string(),
        Column::Rate => lock.grants_per_second.map_or_else(String::new, rate),
        Column::Age => human(whole(lock.age(now))),
        Column::Left => {
            let mark = if lock.is_late { "!" } else { "" };
            format!("{}{mark}", human(whole(lock.left(now))))
        }
        Column::Note => lock.note.clone().unwrap_or_default(),
    }
}

/// The key, cut so that the text behind it stays, such as the number of a permit.
fn name(lock: &Lock, width: usize) -> String {
    let (name, (key, part)) = (lock.name(), lock.key_and_part());
    let kept = width_of(&part);
    if width_of(&name) <= width || kept + 4 > width {
        return cut(&name, width);
    }
    format!("{}{part}", cut(key, width - kept))
}

fn style(state: &State, lock: &Lock, column: Column, now: Duration) -> Style {
    match column {
        Column::Left | Column::Key if lock.is_late => {
            colored(state, Color::Red, Style::new().add_modifier(Modifier::BOLD))
        }
        Column::Age if lock.is_old(now) => colored(state, Color::Yellow, Style::new()),
        _ => Style::new(),
    }
}

fn colored(state: &State, color: Color, style: Style) -> Style {
    if state.has_colors { style.fg(color) } else { style }
}

fn padded(column: Column, text: &str, width: usize, is_last: bool) -> String {
    let space = width.saturating_sub(width_of(text));
    let gap = if is_last { 0 } else { GAP };
    if column.is_at_the_right() {
        format!("{:space$}{text}{:gap$}", "", "")
    } else if is_last {
        text.to_owned()
    } else {
        format!("{text}{:1$}", "", space + gap)
    }
}

/// Without the milliseconds.
fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

fn rate(grants_per_second: f64) -> String {
    match grants_per_second {
        0.0 => "0".to_owned(),
        ..0.1 => "<0.1".to_owned(),
        0.1..9.95 => format!("{grants_per_second:.1}"),
        _ => format!("{grants_per_second:.0}"),
    }
}

#[cfg(test)]
mod tests;
