//! Data that fences protect: see `tests/src/register.rs`.

use crate::protocol::{Reply, Request};

#[derive(Clone, Copy, Debug, Default)]
struct Register {
    value: u64,
    writes: u64,
    fence: u64,
}

#[derive(Debug)]
pub(crate) struct Registers {
    all: Vec<Register>,
    is_fenced: bool,
}

impl Registers {
    pub(crate) fn new(is_fenced: bool) -> Self {
        Self { all: Vec::new(), is_fenced }
    }

    pub(crate) fn name(number: usize) -> String {
        format!("counter-{number}")
    }

    pub(crate) fn carry_out(&mut self, request: &Request) -> Reply {
        let (Request::Claim { register, fence } | Request::Write { register, fence, .. }) = request
        else {
            return Reply::Rejected;
        };
        if self.all.len() <= *register {
            self.all.resize(register + 1, Register::default());
        }
        let state = &mut self.all[*register];
        if *fence < state.fence && self.is_fenced {
            return Reply::Rejected;
        }
        state.fence = *fence;
        match request {
            Request::Write { value, .. } => {
                state.value = *value;
                state.writes += 1;
                Reply::Written
            }
            _ => Reply::Claimed { value: state.value },
        }
    }

    /// Name, value and number of writes.
    pub(crate) fn found(&self) -> Vec<(String, u64, u64)> {
        let all = self.all.iter().enumerate();
        all.map(|(number, it)| (Self::name(number), it.value, it.writes)).collect()
    }
}
