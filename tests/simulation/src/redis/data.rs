//! The records of the server, and the commands that scripts call.

use std::collections::HashMap;

use mlua::{IntoLua as _, Lua, Value};

use crate::server::Refusal;

/// The records, the time, and what the command in progress has done.
#[derive(Default)]
pub(super) struct Data {
    records: HashMap<Vec<u8>, Record>,
    /// Microseconds since 1970.
    pub(super) now: u64,
    /// The names that the command has changed.
    pub(super) changed: Vec<Vec<u8>>,
    /// The names that the command has read, if its connection wants to hear of their changes.
    pub(super) read: Option<Vec<Vec<u8>>>,
    /// The server's answer to all writes, if it refuses them.
    pub(super) refusal: Option<Refusal>,
    /// True if the script has written: then a full memory refuses none of its writes.
    pub(super) has_written: bool,
}

struct Record {
    text: Vec<u8>,
    /// The end of its life, in milliseconds.
    until: Option<u64>,
}

/// The answer of a command to a script.
enum Answer {
    Nothing,
    Done,
    Number(i64),
    Text(Vec<u8>),
    /// Seconds and microseconds.
    Time(u64, u64),
}

impl Data {
    fn millis(&self) -> u64 {
        self.now / 1000
    }

    /// The record with this name. One that is over is deleted, as Redis does.
    fn live(&mut self, name: &[u8]) -> Option<&mut Record> {
        let now = self.millis();
        if self.records.get(name).is_some_and(|record| record.is_over(now)) {
            self.delete(name);
        }
        self.records.get_mut(name)
    }

    fn delete(&mut self, name: &[u8]) -> bool {
        let is_there = self.records.remove(name).is_some();
        if is_there {
            self.changed.push(name.to_vec());
        }
        is_there
    }

    fn set(&mut self, name: &[u8], text: Vec<u8>, until: Option<u64>) {
        self.records.insert(name.to_vec(), Record { text, until });
        self.changed.push(name.to_vec());
    }

    /// Deletes what is over: all records, or these.
    pub(super) fn expire(&mut self, names: Option<Vec<Vec<u8>>>) {
        let now = self.millis();
        let names = names.unwrap_or_else(|| {
            let over = self.records.iter().filter(|(_, record)| record.is_over(now));
            let mut names: Vec<_> = over.map(|(name, _)| name.clone()).collect();
            names.sort_unstable();
            names
        });
        for name in names {
            self.live(&name);
        }
    }

    /// The number of live records whose names have this form.
    pub(super) fn count(&self, is_one: impl Fn(&[u8]) -> bool) -> u64 {
        let now = self.millis();
        let live = self.records.iter().filter(|(_, record)| !record.is_over(now));
        live.filter(|(name, _)| is_one(name)).count() as u64
    }

    /// FLUSHALL.
    pub(super) fn flush(&mut self) {
        let mut names: Vec<_> = self.records.keys().cloned().collect();
        names.sort_unstable();
        for name in names {
            self.delete(&name);
        }
    }

    /// Carries out a command of a script. The error is the server's answer.
    fn command(&mut self, words: &[mlua::String]) -> Result<Answer, String> {
        let word = |at: usize| words[at].as_bytes();
        let name = words.get(1).map(mlua::String::as_bytes);
        let name = name.as_deref().unwrap_or_default();
        let command = word(0);
        let is_write = !matches!(&*command, b"GET" | b"TIME");
        let needs_memory = matches!(&*command, b"SET" | b"INCR" | b"DECR");
        match self.refusal {
            Some(Refusal::Replica) if is_write => {
                return Err("READONLY You can't write against a read only replica.".to_owned());
            }
            Some(Refusal::Full) if needs_memory && !self.has_written => {
                return Err("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
            }
            _ => {}
        }
        self.has_written |= is_write;
        Ok(match &*command {
            b"TIME" => Answer::Time(self.now / 1_000_000, self.now % 1_000_000),
            b"GET" => {
                if let Some(read) = &mut self.read {
                    read.push(name.to_vec());
                }
                let record = self.live(name);
                record.map_or(Answer::Nothing, |record| Answer::Text(record.text.clone()))
            }
            b"INCR" => Answer::Number(self.add(name, 1)?),
            b"DECR" => Answer::Number(self.add(name, -1)?),
            b"DEL" => {
                let mut count = 0;
                for at in 1..words.len() {
                    let name = word(at);
                    count += i64::from(self.live(&name).is_some() && self.delete(&name));
                }
                Answer::Number(count)
            }
            b"PEXPIRE" => {
                let until = self.millis() + number(&word(2))?;
                let Some(record) = self.live(name) else { return Ok(Answer::Number(0)) };
                record.until = Some(until);
                self.changed.push(name.to_vec());
                Answer::Number(1)
            }
            b"PERSIST" => {
                let Some(record) = self.live(name) else { return Ok(Answer::Number(0)) };
                Answer::Number(i64::from(record.until.take().is_some()))
            }
            b"SET" => {
                let options: Vec<_> = (3..words.len()).map(word).collect();
                let options: Vec<&[u8]> = options.iter().map(|word| &**word).collect();
                let (px, is_new) = match options[..] {
                    [] => (None, false),
                    [b"PX", px] => (Some(px), false),
                    [b"PX", px, b"NX"] => (Some(px), true),
                    _ => panic!("options of SET that no script has"),
                };
                let until = px.map(number).transpose()?.map(|life| self.millis() + life);
                if is_new && self.live(name).is_some() {
                    return Ok(Answer::Nothing);
                }
                self.set(name, word(2).to_vec(), until);
                Answer::Done
            }
            other => panic!("{} in a script", String::from_utf8_lossy(other)),
        })
    }

    fn add(&mut self, name: &[u8], by: i64) -> Result<i64, String> {
        const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
        let (before, until) = match self.live(name) {
            Some(Record { text, until }) => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                (number.ok_or(NOT_A_NUMBER)?, *until)
            }
            None => (0, None),
        };
        let after: i64 = before + by;
        self.set(name, after.to_string().into_bytes(), until);
        Ok(after)
    }
}

impl Record {
    fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

fn number(text: &[u8]) -> Result<u64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}

/// `redis.call` and `redis.pcall` for scripts. The data are in the state of Lua.
pub(super) fn library(lua: &Lua) -> mlua::Result<mlua::Table> {
    let library = lua.create_table()?;
    let call = lua.create_function(|lua, words: mlua::Variadic<mlua::String>| {
        let answer = data(lua).command(&words);
        answer.map_err(mlua::Error::runtime).and_then(|answer| answer.into_value(lua))
    })?;
    let pcall = lua.create_function(|lua, words: mlua::Variadic<mlua::String>| {
        let answer = data(lua).command(&words);
        match answer {
            Ok(answer) => answer.into_value(lua),
            Err(text) => status(lua, "err", &text),
        }
    })?;
    library.set("call", call)?;
    library.set("pcall", pcall)?;
    Ok(library)
}

pub(super) fn data(lua: &Lua) -> mlua::AppDataRefMut<'_, Data> {
    lua.app_data_mut().expect("the data of this server")
}

impl Answer {
    /// As Redis shows it to a script.
    fn into_value(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Nothing => Ok(Value::Boolean(false)),
            Self::Done => status(lua, "ok", "OK"),
            Self::Number(number) => Ok(Value::Integer(number)),
            Self::Text(text) => lua.create_string(text).map(Value::String),
            Self::Time(seconds, micros) => [seconds.to_string(), micros.to_string()].into_lua(lua),
        }
    }
}

fn status(lua: &Lua, field: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, text)?;
    Ok(Value::Table(table))
}
