//! Reduces the number of worlds without losing a result.
//!
//! Three rules merge worlds, each for its own reason:
//!
//! 1. **Order.** Clients with the same history are interchangeable, because no rule and no step depends on a client's
//!    number. So they are sorted. (`in_order`)
//! 2. **Forgetting.** Facts that no later step uses get one value, and requests and clean-ups that cannot change
//!    anything any more are removed. A world and its reduced form lead to the same worlds, reduced. (`forget`) A test
//!    checks this for every step of every world in small sizes.
//! 3. **Haste.** A client hears of its grant at once: a client that relies on a lock for longer, and may begin sooner,
//!    does all that a client does that is told later. This holds only if the answer cannot be lost. (`hasten`)

use crate::world::{
    Answer, Asks, CLIENTS, Client, Job, Owner, Phase, Request, Rules, UNUSED, World,
};

impl World {
    /// The representative of all equivalent worlds.
    pub(crate) fn small(mut self, rules: &Rules) -> Self {
        if !rules.is_one_tick {
            // Fences only have to grow, so their number makes no difference.
            let lowest = self.store.counter.min(self.highest);
            self.store.counter -= lowest;
            self.highest -= lowest;
        }
        if !rules.is_reduced {
            return self.sorted();
        }
        if self.left.lost == 0 && self.left.resent == 0 {
            // The time counts from the request, and until the answer the earlier of both ends counts, so a late
            // answer gains nothing.
            self.clients.iter_mut().for_each(|client| client.receive(rules));
        }
        self.forget(rules);
        self.sorted().in_order()
    }

    /// Sorts requests without a known order.
    pub(crate) fn sorted(mut self) -> Self {
        for client in &mut self.clients {
            client.late.sort_unstable_by(|one, other| other.cmp(one));
            client.jobs.sort_unstable_by(|one, other| other.cmp(one));
        }
        self
    }

    /// The same world with sorted clients. The owner of the lock is the first of equal ones.
    pub(crate) fn in_order(mut self) -> Self {
        let owner = self.store.lock.map(|lock| usize::from(lock.owner.client));
        let mut order: [usize; CLIENTS] = std::array::from_fn(|index| index);
        order.sort_by_key(|index| (self.clients[*index], owner != Some(*index)));
        self.clients = order.map(|from| self.clients[from]);
        if let Some(lock) = &mut self.store.lock {
            let to = order.iter().position(|from| Some(*from) == owner);
            lock.owner = Owner::new(to.unwrap_or(CLIENTS), lock.owner.number);
        }
        self
    }

    /// Forgets facts that make no difference any more.
    pub(crate) fn forget(&mut self, rules: &Rules) {
        // An expired record counts as absent.
        self.store.lock.take_if(|lock| !lock.is_live(rules, 0));
        let (may_lose, may_extend) =
            (self.left.lost > 0 || self.left.resent > 0, self.left.extends > 0);
        for (who, client) in self.clients.iter_mut().enumerate() {
            let lock = self.store.lock.filter(|lock| usize::from(lock.owner.client) == who);
            let held = lock.map(|lock| lock.owner.number);
            client.forget_vain(rules, held);
            client.forget_unused(may_lose, may_extend);
        }
        for who in 0..CLIENTS {
            self.forget_ended(rules, who);
        }
    }

    /// The time of a client's end matters as long as its lock may live too long.
    fn forget_ended(&mut self, rules: &Rules, who: usize) {
        let is_settled = self.clients[who].late.iter().flatten().all(|it| it.asks == Asks::Release);
        let is_in_time = is_settled && self.is_over_in_time(rules, who);
        let is_named = self.store.lock.is_some_and(|lock| usize::from(lock.owner.client) == who);
        let client = &mut self.clients[who];
        if let Phase::Ended { at } = &mut client.phase
            && is_in_time
        {
            *at = 0;
        }
        let is_over = matches!(client.phase, Phase::Idle | Phase::Ended { at: 0 });
        if is_over && client.left == 0 && client.jobs == [None; _] && client.late == [None; _] {
            // Its clock is not used any more.
            client.drift = 0;
            if !is_named {
                client.phase = Phase::Idle;
            }
        }
    }
}

impl Client {
    /// Requests and clean-ups that change nothing: a request that comes too late, and one for a lock that is not
    /// there and will not come. `held`: the number of its acquisition in the store.
    fn forget_vain(&mut self, rules: &Rules, held: Option<u8>) {
        self.late.iter_mut().for_each(|late| {
            late.take_if(|late| rules.is_late(late.sent));
        });
        let before = *self;
        let can_be = |number: u8| {
            let is_acquire = |it: &Request| {
                it.number == number && it.asks == Asks::Acquire && it.answer.is_none()
            };
            held == Some(number) || before.requests().any(is_acquire)
        };
        for late in &mut self.late {
            late.take_if(|late| late.asks != Asks::Acquire && !can_be(late.number));
        }
        for job in &mut self.jobs {
            job.take_if(|Job { number, .. }| !can_be(*number));
        }
    }

    /// Facts that no step uses.
    fn forget_unused(&mut self, may_lose: bool, may_extend: bool) {
        for late in self.late.iter_mut().flatten() {
            late.asked = 0;
            late.is_again = false;
        }
        if let Phase::Holds { known, .. } = &mut self.phase
            && !may_extend
        {
            *known = UNUSED;
        }
        if let Some(request) = &mut self.waits {
            request.forget_unused(may_lose, may_extend);
        }
    }
}

impl Request {
    /// Facts of an awaited request that no step uses.
    fn forget_unused(&mut self, may_lose: bool, may_extend: bool) {
        let is_acquire = self.asks == Asks::Acquire;
        if self.asks == Asks::Release {
            self.asked = 0;
        }
        if !may_lose && !is_acquire {
            self.is_again = false;
        }
        if let Some(Answer::Granted(known) | Answer::Extended(known)) = &mut self.answer {
            if !may_extend {
                *known = UNUSED;
            }
            // The request cannot be refused any more; its send time only limits the clean-up.
            if !is_acquire || !may_lose && !self.is_again {
                self.sent = 0;
            }
            if let Asks::Extend { known, .. } = &mut self.asks
                && !may_lose
            {
                *known = UNUSED;
            }
        }
    }
}
