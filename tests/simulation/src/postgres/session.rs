//! The server's side of PostgreSQL's protocol: sessions, prepared statements and rows.

use std::collections::{BTreeMap, HashMap};

use bytes::{Buf as _, BufMut as _, BytesMut};

use super::array;
use super::statements::Kind;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Text(String),
    Number(i64),
    Short(i32),
    Bool(bool),
    Numbers(Vec<i64>),
    Bools(Vec<bool>),
}

/// The type of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Text = 25,
    Number = 20,
    Short = 23,
    Bool = 16,
    Numbers = 1016,
    Bools = 1000,
    Texts = 1009,
}

/// A statement that a session begins.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) kind: &'static Kind,
    pub(super) parameters: Vec<Option<Vec<u8>>>,
}

/// How a statement ends.
#[derive(Debug)]
pub(crate) enum Ended {
    Row(Option<Vec<Cell>>),
    /// SQLSTATE and text.
    Error(&'static str, &'static str),
}

/// What a session wants.
pub(super) enum Wants {
    Sends(Vec<u8>),
    Begins(Begun),
    /// Begins to listen, and sends this notification to all who listen.
    Listens(&'static str),
    /// The end of the statement of another session.
    Cancels(u64),
    Closes,
}

#[derive(Default)]
pub(super) struct Sessions {
    all: BTreeMap<u64, Session>,
    /// True behind a pooler.
    pub(super) are_pooled: bool,
}

#[derive(Default)]
struct Session {
    input: BytesMut,
    output: BytesMut,
    is_open: bool,
    /// True while a statement is under way.
    is_busy: bool,
    /// The number of columns of its answer: a statement with several rows gives all their cells.
    columns: usize,
    /// True after an error, until the next Sync.
    skips: bool,
    prepared: HashMap<String, (&'static Kind, Vec<u32>)>,
    portal: Option<Begun>,
}

impl Sessions {
    pub(super) fn restarts(&mut self) {
        self.all.clear();
    }

    /// The connection is gone. A statement under way goes on.
    pub(super) fn closes(&mut self, connection: u64) {
        self.all.remove(&connection);
    }

    pub(super) fn receives(&mut self, connection: u64, bytes: &[u8]) -> Vec<Wants> {
        let session = self.all.entry(connection).or_default();
        session.input.extend_from_slice(bytes);
        session.goes_on(connection, self.are_pooled)
    }

    /// A statement has ended.
    pub(super) fn ends(&mut self, connection: u64, ended: Ended) -> Vec<Wants> {
        let Some(session) = self.all.get_mut(&connection) else { return Vec::new() };
        let columns = session.columns;
        session.is_busy = false;
        match ended {
            Ended::Row(row) => {
                for row in row.iter().flat_map(|cells| cells.chunks(columns)) {
                    session.row(row);
                }
                message(&mut session.output, b'C', |out| out.put_slice(b"SELECT 1\0"));
            }
            Ended::Error(code, text) => session.fails(code, text),
        }
        session.goes_on(connection, self.are_pooled)
    }

    /// A notification from the session of this number.
    pub(super) fn notification(from: u64, channel: &str, text: &str) -> Vec<u8> {
        let mut out = BytesMut::new();
        message(&mut out, b'A', |out| {
            out.put_i32(process(from, false));
            for text in [channel, text] {
                out.put_slice(text.as_bytes());
                out.put_u8(0);
            }
        });
        out.to_vec()
    }
}

/// The process id of a session. A pooler gives numbers that no process has.
pub(super) fn process(connection: u64, is_pooled: bool) -> i32 {
    let id = i32::try_from(connection).expect("few connections");
    if is_pooled { id | 1 << 30 } else { id }
}

fn message(out: &mut BytesMut, tag: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(tag);
    let at = out.len();
    out.put_i32(0);
    body(out);
    let length = u32::try_from(out.len() - at).expect("short");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Takes a text that ends with a zero.
fn text(body: &mut BytesMut) -> String {
    let end = body.iter().position(|byte| *byte == 0).expect("an end");
    let text = body.split_to(end);
    body.advance(1);
    String::from_utf8(text.to_vec()).expect("UTF-8")
}

impl Session {
    fn row(&mut self, row: &[Cell]) {
        message(&mut self.output, b'D', |out| {
            out.put_i16(i16::try_from(row.len()).expect("few"));
            for cell in row {
                value(out, cell);
            }
        });
    }

    fn ready(&mut self) {
        message(&mut self.output, b'Z', |out| out.put_u8(b'I'));
    }

    fn fails(&mut self, code: &str, text: &str) {
        self.skips = true;
        message(&mut self.output, b'E', |out| {
            for (tag, value) in [(b'S', "ERROR"), (b'V', "ERROR"), (b'C', code), (b'M', text)] {
                out.put_u8(tag);
                out.put_slice(value.as_bytes());
                out.put_u8(0);
            }
            out.put_u8(0);
        });
    }

    /// Takes the next message, if all of it is there. The first message has no tag.
    fn next(&mut self) -> Option<(u8, BytesMut)> {
        let tag = usize::from(self.is_open);
        let length = self.input.get(tag..tag + 4)?;
        let length = tag + u32::from_be_bytes(length.try_into().ok()?) as usize;
        if self.input.len() < length {
            return None;
        }
        let mut whole = self.input.split_to(length);
        let kind = if self.is_open { whole[0] } else { 0 };
        whole.advance(tag + 4);
        Some((kind, whole))
    }

    fn goes_on(&mut self, connection: u64, is_pooled: bool) -> Vec<Wants> {
        let mut wants = Vec::new();
        while !self.is_busy
            && let Some((kind, body)) = self.next()
        {
            match kind {
                0 => self.opens(connection, is_pooled, body, &mut wants),
                b'S' => {
                    self.skips = false;
                    self.ready();
                }
                _ if self.skips => {}
                b'X' => wants.push(Wants::Closes),
                b'Q' => self.simple(body, &mut wants),
                kind => self.extended(kind, body, &mut wants),
            }
        }
        // A batch is answered in one piece, as the server's buffer does.
        if !self.is_busy && !self.output.is_empty() {
            wants.insert(0, Wants::Sends(self.output.split().to_vec()));
        }
        wants
    }

    /// The first message: a log-in, or a request to cancel.
    fn opens(
        &mut self,
        connection: u64,
        is_pooled: bool,
        mut body: BytesMut,
        wants: &mut Vec<Wants>,
    ) {
        const CANCEL: i32 = 80_877_102;
        if body.get_i32() == CANCEL {
            let session = body.get_i32() & !(1 << 30);
            wants.push(Wants::Cancels(u64::from(session.unsigned_abs())));
            wants.push(Wants::Closes);
            return;
        }
        self.is_open = true;
        message(&mut self.output, b'R', |out| out.put_i32(0));
        message(&mut self.output, b'K', |out| {
            out.put_i32(process(connection, is_pooled));
            out.put_i32(1);
        });
        self.ready();
    }

    /// Statements without parameters: settings, LISTEN, or nothing.
    fn simple(&mut self, mut body: BytesMut, wants: &mut Vec<Wants>) {
        let sql = text(&mut body);
        if sql.is_empty() {
            message(&mut self.output, b'I', |_| {});
        } else {
            message(&mut self.output, b'C', |out| out.put_slice(b"SET\0"));
        }
        self.ready();
        if sql.contains("LISTEN") {
            wants.push(Wants::Listens("hello"));
        }
    }

    fn extended(&mut self, kind: u8, mut body: BytesMut, wants: &mut Vec<Wants>) {
        match kind {
            b'P' => {
                let (name, sql) = (text(&mut body), text(&mut body));
                let types = (0..body.get_i16()).map(|_| body.get_u32()).collect();
                self.prepared.insert(name, (Kind::of(&sql), types));
                message(&mut self.output, b'1', |_| {});
            }
            b'D' if body.get_u8() == b'S' => {
                let (kind, types) = &self.prepared[&text(&mut body)];
                message(&mut self.output, b't', |out| {
                    out.put_i16(i16::try_from(types.len()).expect("few"));
                    for kind in types {
                        out.put_u32(*kind);
                    }
                });
                description(&mut self.output, kind.columns);
            }
            b'D' => {
                let kind = self.portal.as_ref().expect("a portal").kind;
                description(&mut self.output, kind.columns);
            }
            b'B' => {
                let (_portal, name) = (text(&mut body), text(&mut body));
                let formats = body.get_i16();
                body.advance(2 * usize::from(formats.unsigned_abs()));
                let count = body.get_i16();
                let parameter = |_| {
                    let length = usize::try_from(body.get_i32()).ok()?;
                    Some(body.split_to(length).to_vec())
                };
                let parameters = (0..count).map(parameter).collect();
                let Some((kind, _)) = self.prepared.get(&name) else {
                    return self.fails("26000", "the prepared statement does not exist");
                };
                self.portal = Some(Begun { kind, parameters });
                message(&mut self.output, b'2', |_| {});
            }
            b'E' => {
                self.is_busy = true;
                let begun = self.portal.take().expect("a portal");
                self.columns = begun.kind.columns.len();
                wants.push(Wants::Begins(begun));
            }
            b'C' => message(&mut self.output, b'3', |_| {}),
            other => panic!("a message {}", char::from(other)),
        }
    }
}

fn description(output: &mut BytesMut, columns: &[(&str, Column)]) {
    message(output, b'T', |out| {
        out.put_i16(i16::try_from(columns.len()).expect("few"));
        for (name, column) in columns {
            out.put_slice(name.as_bytes());
            out.put_u8(0);
            out.put_u32(0);
            out.put_i16(0);
            out.put_u32(*column as u32);
            out.put_i16(-1);
            out.put_i32(-1);
            out.put_i16(1);
        }
    });
}

fn value(out: &mut BytesMut, cell: &Cell) {
    let at = out.len();
    out.put_i32(-1);
    match cell {
        Cell::Null => return,
        Cell::Text(text) => out.put_slice(text.as_bytes()),
        Cell::Number(number) => out.put_i64(*number),
        Cell::Short(number) => out.put_i32(*number),
        Cell::Bool(is) => out.put_u8(u8::from(*is)),
        Cell::Numbers(all) => {
            let all = all.iter().map(|number| number.to_be_bytes().to_vec());
            array::write(out, Column::Number as u32, all);
        }
        Cell::Bools(all) => {
            let all = all.iter().map(|is| vec![u8::from(*is)]);
            array::write(out, Column::Bool as u32, all);
        }
    }
    let length = u32::try_from(out.len() - at - 4).expect("short");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
