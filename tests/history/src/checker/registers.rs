//! The data that the locks protect.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::found::Found;
use super::stairs::Stairs;
use crate::event::{Answer, Call};
use crate::invariant::Invariant;
use crate::operation::Operation;

#[derive(Debug, Default)]
pub(super) struct Registers(BTreeMap<String, Register>);

#[derive(Debug, Default)]
struct Register {
    /// The fences of accepted reads and writes, and the values at that time.
    fences: Stairs,
    values: Stairs,
    /// The writers of each value, in the order of their answers.
    writers: HashMap<u64, Arc<Operation>>,
    order: VecDeque<(u64, u64)>,
    written: u64,
    unknown: u64,
    /// The final value and number of writes.
    found: Option<(u64, u64)>,
}

impl Registers {
    /// An operation has ended, and all calls before `oldest` are answered.
    pub(super) fn closes(&mut self, operation: &Arc<Operation>, oldest: u64, found: &mut Found) {
        let (name, fence, value, is_write) = match (&operation.call, operation.answer()) {
            (Call::Claim { register, fence }, Some(Answer::Claimed { value })) => {
                (register, *fence, *value, false)
            }
            (Call::Write { register, fence, value }, Some(Answer::Written)) => {
                (register, *fence, *value, true)
            }
            (Call::Write { register, .. }, _) if operation.is_unknown() => {
                self.register(register).unknown += 1;
                return;
            }
            _ => return,
        };
        let register = self.register(name);
        let mut broken = |what: &str, before: &Arc<Operation>| {
            let what = format!("register {name:?}: {what}");
            found.add(Invariant::NoLostUpdate, what, [Arc::clone(before), Arc::clone(operation)]);
        };
        let answered = operation.over_at();
        if is_write {
            register.written += 1;
            register.order.push_back((answered, value));
            if let Some(before) = register.writers.insert(value, Arc::clone(operation)) {
                broken("two writes of one value", &before);
            }
        }
        // An operation after another one sees no lower value, and was accepted with no lower fence.
        for (stairs, number) in [(&mut register.fences, fence), (&mut register.values, value)] {
            if let Some((_, before)) = stairs.higher(number, operation.called.steady) {
                broken("a value or a fence that goes back", before);
            }
            stairs.climb(answered, number, operation);
            stairs.forget(oldest);
        }
        register.forget(oldest);
    }

    pub(super) fn found(&mut self, name: &str, value: u64, writes: u64) {
        self.register(name).found = Some((value, writes));
    }

    pub(super) fn finish(&mut self, all: &mut Found) {
        for (name, Register { written, unknown, found, .. }) in &self.0 {
            let what = match found {
                None => "nobody looked at it in the end".to_owned(),
                Some((value, writes)) if value != writes => {
                    format!("{writes} writes made {value}: an update is lost")
                }
                Some((_, writes)) if !(*written..=written + unknown).contains(writes) => {
                    format!(
                        "it took {writes} writes; {written} were confirmed, {unknown} more may have been"
                    )
                }
                Some(_) => continue,
            };
            all.add(Invariant::NoLostUpdate, format!("register {name:?}: {what}"), []);
        }
    }

    pub(super) fn retained(&self) -> usize {
        let all = self.0.values();
        all.map(|it| it.fences.len() + it.values.len() + it.writers.len()).sum()
    }

    fn register(&mut self, name: &str) -> &mut Register {
        self.0.entry(name.to_owned()).or_default()
    }
}

impl Register {
    /// A value that is written a second time is lower than the highest value, or the highest value itself.
    fn forget(&mut self, before: u64) {
        while let Some((at, value)) = self.order.front().copied() {
            if at >= before || self.values.highest() == Some(value) {
                break;
            }
            self.order.pop_front();
            self.writers.remove(&value);
        }
    }
}
