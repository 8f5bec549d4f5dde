//! The flaws, and the cases that must notice each.

/// Makes the enum, a test of each flaw, and the table.
macro_rules! flaws {
    ($($(#[$doc:meta])* $flaw:ident => [$($case:ident),+ $(,)?];)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types, reason = "the names are those of the tests")]
        pub(crate) enum Flaw {
            $($(#[$doc])* $flaw,)+
        }

        /// The cases that must fail for each flaw.
        pub(crate) const CAUGHT: &[(Flaw, &[&str])] =
            &[$((Flaw::$flaw, &[$(stringify!($case)),+]),)+];

        $(
            #[test]
            fn $flaw() {
                crate::mutants::is_caught(Flaw::$flaw, &[$(stringify!($case)),+]);
            }
        )+
    };
}

flaws! {
    // Acquire.
    accepts_a_second_holder => [
        a_held_key_is_refused, a_refusal_changes_nothing, waiting_ends_with_the_time_limit,
        work_runs_under_the_lock, both_normal_forms_are_one_key, locks_of_one_key_never_overlap,
        locked_work_never_overlaps, one_of_many_racers_wins, clones_share_the_store,
    ];
    checks_first_and_writes_later => [
        one_of_many_racers_wins, locks_of_one_key_never_overlap, locked_work_never_overlaps,
        many_at_once_use_up_a_window_once,
    ];
    takes_expired_locks_over_in_two_steps => [an_expired_lock_has_one_heir, an_old_holder_cannot_disturb_its_heirs];
    waits_for_the_holder => [a_held_key_is_refused];
    waits_for_the_holder_and_ignores_tokens => [a_cancelled_wait_ends_at_once];
    says_contention_is_an_error => [a_held_key_is_refused, a_waiting_contender_gets_its_turn];
    extends_on_contention => [a_refusal_changes_nothing];
    indexes_refused_ids => [a_refused_request_is_granted_once_the_key_is_free];
    never_signals => [a_release_is_heard];
    says_nothing_of_a_release_that_raises_the_counter => [a_release_is_heard];
    a_watch_takes_expired_locks_for_live => [a_watch_does_not_take_a_free_key_for_locked];
    says_that_what_it_watches_is_locked => [a_watch_does_not_take_a_free_key_for_locked];
    mixes_up_watches => [a_release_of_another_key_says_nothing_of_this_one];
    listens_after_its_answer => [no_release_is_lost_between_a_refusal_and_the_wait];
    never_says_how_long_it_is_held => [a_refusal_says_how_long_at_most, a_key_is_free_when_the_refusal_said];
    says_the_ttl_without_the_tolerance => [a_refusal_says_how_long_at_most, a_key_is_free_when_the_refusal_said];
    takes_its_own_holders_for_pollers => [a_holder_of_this_library_does_not_poll];
    forgets_extends_in_a_refusal => [a_refusal_says_how_long_at_most];
    remembers_refused_ids_as_used => [a_refused_request_is_granted_once_the_key_is_free];
    grants_another_lock_id => [acquire_takes_a_free_key];
    refuses_free_keys_at_first => [acquire_takes_a_free_key];
    inherits_the_time_of_acquisition => [a_release_leaves_nothing_behind, an_expiry_leaves_nothing_behind];
    each_connection_has_its_own_locks => [connections_share_the_store, a_held_key_is_refused];
    each_clone_has_its_own_locks => [clones_share_the_store];
    locks_once_per_key => [release_frees_the_key];
    is_overloaded_by_many_at_once => [different_keys_do_not_contend];

    // Idempotence.
    is_not_idempotent => [the_same_request_gets_the_same_lock];
    extends_on_a_repeated_request => [the_same_request_gets_the_same_lock];
    shortens_on_a_repeated_request => [the_same_request_gets_the_same_lock];
    takes_a_fence_for_a_repeated_request => [the_same_request_gets_the_same_lock, one_request_sent_many_times_at_once_is_one_lock];
    forgets_the_request_at_its_expiry => [the_same_request_within_the_tolerance_gets_the_same_lock];
    answers_repeated_requests_from_memory => [a_released_request_takes_a_new_lock, an_expired_request_takes_a_new_lock];
    misses_a_repeated_request_on_its_way => [one_request_sent_many_times_at_once_is_one_lock];

    // Fences.
    repeats_fences => [fences_grow_with_every_acquisition, a_waiting_contender_gets_its_turn, locks_of_one_key_never_overlap];
    fences_start_at_two => [the_first_fence_is_one];
    fences_fall_after_expiry => [fences_grow_across_expiry, an_expired_request_takes_a_new_lock, expired_locks_do_not_disturb_live_ones];
    uses_up_fences_on_contention => [a_refusal_uses_up_no_fence];
    counts_all_keys_together => [each_key_has_its_own_counter, the_first_fence_is_one];
    drops_the_counter_on_release => [fences_grow_with_every_acquisition];
    drops_the_counter_in_the_cleanup => [a_counter_outlives_the_cleanup];
    ignores_the_counter_from_outside => [the_next_fence_follows_the_counter, the_last_fence_is_granted];
    loses_digits_of_large_fences => [large_fences_keep_every_digit];
    shows_large_fences_rounded => [large_fences_keep_every_digit, the_last_fence_is_granted];
    refuses_fences_above_the_warning_level => [a_fence_above_the_warning_level_is_granted];
    never_warns => [a_fence_above_the_warning_level_is_logged];
    fails_on_the_last_fence => [the_last_fence_is_granted];
    checks_the_counter_before_the_holder => [the_last_fence_is_granted];
    overflow_leaves_a_lock => [an_exhausted_counter_grants_nothing];
    overflow_wraps => [an_exhausted_counter_grants_nothing];
    overflow_is_unavailable => [an_exhausted_counter_grants_nothing];

    // Release.
    release_ignores_the_id => [an_unknown_id_touches_nothing, a_lock_id_touches_its_own_lock_alone];
    release_deletes_the_next_lock => [an_old_id_cannot_touch_the_next_lock, an_old_holder_cannot_disturb_its_heirs];
    release_of_an_expired_lock_succeeds => [an_extend_after_the_tolerance_revives_nothing];
    release_ends_at_the_expiry => [a_release_within_the_tolerance_succeeds];
    release_always_succeeds => [a_lock_is_released_once, one_of_many_releases_succeeds];
    release_does_nothing => [
        release_frees_the_key, is_locked_follows_the_lock, a_dropped_guard_frees_the_key,
        a_guard_extends_and_releases, a_waiting_contender_gets_its_turn,
    ];
    release_reads_and_deletes_later => [one_of_many_releases_succeeds];
    release_keeps_the_id => [release_frees_the_key, a_released_id_cannot_touch_the_next_lock];
    release_says_unknown_ids_expired => [an_unknown_id_touches_nothing];
    releases_half_when_dropped => [a_dropped_release_leaves_a_whole_lock_or_none, a_token_fired_on_the_way_leaves_a_whole_lock_or_none];

    // Extend.
    extend_resurrects => [an_extend_after_the_tolerance_revives_nothing];
    extend_adds => [an_extend_replaces_what_was_left];
    extend_only_lengthens => [an_extend_can_shorten, a_shortened_lock_ends_early];
    extend_ignores_ownership => [an_old_id_cannot_touch_the_next_lock, an_old_holder_cannot_disturb_its_heirs];
    extend_always_succeeds => [an_unknown_id_touches_nothing, a_guard_learns_that_its_lock_is_gone];
    extend_ends_at_the_expiry => [an_extend_within_the_tolerance_succeeds];
    an_extended_lock_has_no_tolerance => [an_extended_lock_has_the_tolerance_again];
    extend_does_nothing => [extend_prolongs_the_lock, an_extended_lock_outlives_its_first_ttl];
    extend_leaves_the_index_behind => [an_extended_lock_outlives_its_first_ttl, auto_extend_outlives_the_ttl];
    extend_renews_the_time_of_acquisition => [an_extend_keeps_the_time_of_acquisition];
    extend_takes_a_fence => [an_extend_keeps_the_fence];
    extend_reports_the_old_expiry => [extend_prolongs_the_lock];
    extend_reads_and_writes_later => [
        an_extend_never_undoes_a_release, racing_extends_leave_one_expiry,
        of_many_extends_with_one_expectation_one_applies,
    ];
    extend_may_leave_the_expiry_as_it_was => [every_extend_changes_the_expiry];
    extends_half_when_dropped => [a_dropped_extend_leaves_a_whole_lock];

    // Hints.
    takes_the_hint_for_proof => [
        a_hint_gives_other_ids_nothing, a_wrong_hint_finds_the_lock_of_the_id,
        a_wrong_hint_extends_the_lock_of_the_id, a_wrong_hint_releases_the_lock_of_the_id,
    ];
    looks_only_under_the_hint => [
        a_wrong_hint_finds_the_lock_of_the_id, a_wrong_hint_extends_the_lock_of_the_id,
        a_wrong_hint_releases_the_lock_of_the_id, any_key_can_be_a_hint,
    ];
    refuses_hints_that_nobody_could_lock => [any_key_can_be_a_hint];
    finds_nothing_with_a_hint => [a_right_hint_changes_no_answer];

    // Expectations.
    ignores_the_expected_expiry => [
        another_expected_expiry_changes_nothing, an_older_extend_that_comes_late_never_shortens,
        the_expectation_counts_within_the_tolerance, of_many_extends_with_one_expectation_one_applies,
        a_late_extend_gives_way_to_a_later_one,
    ];
    extends_what_expires_later_than_expected => [
        another_expected_expiry_changes_nothing, an_older_extend_that_comes_late_never_shortens,
        a_late_extend_gives_way_to_a_later_one,
    ];
    /// Each extend of a batch gets the answer of the first.
    a_batch_has_one_answer => [each_extend_of_a_batch_has_an_answer_of_its_own];
    /// A batch extends its locks whatever they are.
    a_batch_expects_nothing => [each_extend_of_a_batch_has_an_answer_of_its_own];
    refuses_every_expectation => [the_stored_expiry_is_expected_rightly];
    refuses_expectations_within_the_tolerance => [the_expectation_counts_within_the_tolerance];
    compares_the_expectation_before_it_looks_at_the_life => [a_lost_lock_is_not_held_whatever_is_expected];
    says_a_mismatch_is_not_held => [another_expected_expiry_changes_nothing, a_guard_goes_on_from_the_stored_expiry];
    answers_a_mismatch_with_the_expectation => [another_expected_expiry_changes_nothing, a_guard_goes_on_from_the_stored_expiry];

    // Inventory.
    lists_some_locks_only => [a_listing_shows_every_live_lock, pages_show_each_lock_once];
    lists_no_fences => [a_listing_shows_every_live_lock];
    lists_expired_locks => [a_listing_shows_no_lock_that_is_over];
    lists_no_lock_in_its_tolerance => [a_listing_shows_a_lock_within_the_tolerance];
    takes_prefixes_for_patterns => [a_listing_goes_by_the_beginning_of_keys];
    ignores_prefixes => [a_listing_goes_by_the_beginning_of_keys];
    lists_the_stores_names => [a_listing_shows_keys_as_they_are];
    ignores_the_page_size => [pages_show_each_lock_once, the_next_page_begins_where_the_page_ended];
    lists_the_last_of_a_page_twice => [pages_show_each_lock_once, what_comes_and_goes_hides_no_lock];
    ends_a_listing_at_a_full_page => [pages_show_each_lock_once, the_next_page_begins_where_the_page_ended];
    counts_places_instead_of_keys => [what_comes_and_goes_hides_no_lock];
    uses_up_cursors => [the_next_page_begins_where_the_page_ended];
    fails_a_listing_over_corrupt_records => [a_corrupt_record_hides_no_other];
    is_silent_about_corrupt_records => [a_corrupt_record_hides_no_other];
    a_listing_extends => [looking_over_all_changes_nothing];
    a_look_at_a_counter_counts => [looking_over_all_changes_nothing, the_counter_of_a_key_is_its_last_fence];
    makes_counters_of_keys_never_locked => [the_counter_of_a_key_is_its_last_fence];
    lists_counters_of_locked_keys_only => [counters_of_free_keys_are_listed];
    a_raise_does_nothing => [a_raised_counter_gives_higher_fences, raises_and_acquires_at_once_keep_fences_growing];
    a_raise_touches_the_lock => [a_raised_counter_gives_higher_fences];
    a_raise_lowers => [
        a_raise_never_lowers_a_counter, a_release_raises_the_counter_of_its_lock,
        raises_and_acquires_at_once_keep_fences_growing];
    a_raise_says_what_it_was_asked => [a_raise_never_lowers_a_counter];
    a_raise_reads_and_writes_later => [raises_and_acquires_at_once_keep_fences_growing];
    a_raise_stops_below_the_end => [a_counter_raised_to_the_end_grants_nothing];

    // Windows.
    ignores_windows => [
        a_window_gives_its_first_fence, the_acquires_of_a_window_get_ascending_fences, a_used_up_window_is_taken,
        a_window_is_too_early_before_its_time, many_at_once_use_up_a_window_once,
    ];
    gives_windows_the_next_fence => [a_window_gives_its_first_fence];
    gives_windows_their_first_fence_again => [
        the_acquires_of_a_window_get_ascending_fences, a_dead_holder_is_followed_within_the_window,
    ];
    counts_windows_as_one_fence => [a_plain_acquire_goes_on_from_a_windows_fence, a_used_up_window_is_taken];
    grants_at_the_limit_of_windows => [
        the_acquires_of_a_window_get_ascending_fences, a_used_up_window_is_taken, many_at_once_use_up_a_window_once,
    ];
    forgets_used_up_windows_of_free_keys => [a_used_up_window_is_taken, many_at_once_use_up_a_window_once];
    rounds_the_limit_of_windows => [windows_keep_every_digit];
    says_the_limit_for_the_counter => [a_used_up_window_is_taken, a_used_up_window_is_taken_in_any_case];
    says_locked_before_taken => [a_used_up_window_is_taken_in_any_case];
    says_too_early_before_taken => [a_used_up_window_is_taken_in_any_case];
    says_locked_before_too_early => [a_window_is_too_early_before_its_time];
    ignores_the_time_of_windows => [a_window_is_too_early_before_its_time, a_window_opens_at_its_time];
    opens_windows_a_millisecond_late => [a_window_opens_at_its_time, a_held_key_is_locked_below_the_limit];
    opens_windows_a_millisecond_early => [a_window_opens_at_its_time];
    never_says_how_long_a_window_is_shut => [a_window_is_too_early_before_its_time];
    looks_at_windows_before_the_own_lock => [the_same_request_in_a_window_gets_the_same_lock];
    uses_up_fences_of_refused_windows => [a_refused_window_uses_up_no_fence];
    locks_what_a_window_refuses => [a_refused_window_changes_no_lock];
    a_release_raises_no_counter => [a_release_raises_the_counter_of_its_lock];
    a_release_of_an_expired_lock_raises => [a_release_that_frees_nothing_raises_no_counter];
    a_release_raises_the_counter_of_another_key => [a_release_that_frees_nothing_raises_no_counter];

    // Lateness.
    carries_out_late_acquires => [a_late_acquire_takes_no_lock, a_late_acquire_leaves_nothing_after_the_clean_up];
    carries_out_late_extends => [a_late_extend_changes_nothing];
    carries_out_late_releases => [a_late_release_frees_nothing];
    refuses_what_is_a_little_late => [a_request_that_is_a_little_late_is_served];
    ends_the_clean_up_of_a_late_acquire_at_the_first_not_held => [a_late_acquire_leaves_nothing_after_the_clean_up];
    forgets_the_first_of_two_acquires_when_it_is_late => [the_first_of_two_acquires_comes_late];

    // Time.
    has_no_tolerance => [a_lock_is_live_within_the_tolerance, the_shortest_ttl_works];
    has_twice_the_tolerance => [a_lock_is_free_after_the_tolerance];
    has_a_millisecond_too_much => [a_lock_is_free_after_the_tolerance];
    has_a_millisecond_too_little => [a_lock_is_live_within_the_tolerance];
    counts_in_seconds => [the_expiry_is_the_stores_time_plus_the_ttl, a_lock_lives_for_exactly_its_ttl];
    adds_the_tolerance_to_the_expiry => [a_lock_lives_for_exactly_its_ttl];
    reports_another_expiry_than_it_stores => [extend_prolongs_the_lock, a_lookup_shows_the_lock];
    caps_the_ttl => [the_longest_ttl_works];
    brings_expired_locks_back => [an_expiry_leaves_nothing_behind];

    // Reads.
    lookup_shows_expired_locks => [a_lock_is_free_after_the_tolerance];
    lookup_by_id_shows_the_next_lock => [an_old_id_cannot_touch_the_next_lock];
    lookup_by_id_finds_any_lock => [a_lookup_of_nothing_is_none, a_lookup_shows_the_lock];
    lookup_returns_the_storage_key => [a_lookup_exposes_the_users_key_and_lock_id, a_lookup_shows_hashes];
    lookup_extends => [looking_changes_nothing, looking_does_not_prolong_the_lock];
    lookup_hides_the_holder => [a_lookup_shows_hashes, the_helpers_agree_with_the_lookup];
    keeps_the_first_holder => [a_lookup_shows_the_holder_of_the_lock_or_none];
    extend_forgets_the_holder => [a_lookup_shows_the_holder_of_the_lock_or_none];
    reads_the_holder_later => [no_look_shows_the_holder_of_another_lock];
    lists_no_holders => [a_lookup_shows_the_holder_of_the_lock_or_none];
    lookup_shows_another_fence => [a_lookup_shows_the_lock];
    lookup_logs_the_key => [logs_hide_key_and_lock_id];
    is_locked_deletes_live_locks => [looking_changes_nothing];
    is_locked_extends => [looking_changes_nothing, looking_does_not_prolong_the_lock];
    is_locked_says_yes_while_a_record_is_there => [a_lock_is_free_after_the_tolerance, an_extend_after_the_tolerance_revives_nothing];
    cleanup_deletes_the_next_lock => [asking_about_an_expired_lock_spares_the_next_one];
    cleanup_deletes_everything => [expired_locks_do_not_disturb_live_ones];

    // Keys.
    folds_case => [similar_keys_are_different_keys, long_keys_are_told_apart_by_their_last_byte];
    trims_keys => [similar_keys_are_different_keys];
    normalises_too_much => [similar_keys_are_different_keys];
    truncates_keys => [long_keys_are_told_apart_by_their_last_byte];
    refuses_long_keys => [the_longest_keys_work];
    takes_keys_for_paths => [keys_may_look_like_paths];
    keeps_counters_among_the_locks => [keys_may_look_like_the_stores_own_names];
    keeps_the_index_among_the_locks => [a_key_may_read_like_a_lock_id];
    strips_quotes => [keys_may_hold_quotes_and_wildcards];
    strips_control_characters => [keys_may_hold_control_characters_and_emoji];
    refuses_dots => [dots_are_keys];

    // Errors.
    lies_about_fencing => [capabilities_are_truthful];
    has_no_name => [capabilities_are_truthful];
    shows_the_key_in_errors => [errors_hide_key_and_lock_id];
    takes_corrupt_records_for_free => [a_corrupt_record_is_an_internal_error];
    takes_corrupt_records_for_unlocked => [a_corrupt_record_is_an_internal_error];
    does_not_say_that_records_are_lost => [a_corrupt_record_ends_a_hold];
    clears_corrupt_records_away => [a_corrupt_record_is_never_cleared];
    never_answers => [acquire_takes_a_free_key];
    panics => [acquire_takes_a_free_key];

    // Cancellation.
    ignores_tokens => [
        a_fired_token_stops_an_acquire, a_fired_token_stops_a_release, a_fired_token_stops_an_extend,
        a_fired_token_stops_a_look,
    ];
    sends_before_it_looks_at_the_token => [
        a_fired_token_stops_an_acquire, a_fired_token_stops_a_release, a_fired_token_stops_an_extend,
    ];
    releases_when_a_token_fires_late => [a_quiet_token_changes_nothing];
    an_aborted_acquire_stays => [a_token_fired_on_the_way_leaves_no_lock];
    a_dropped_acquire_stays => [a_dropped_acquire_leaves_no_lock, aborted_tasks_leave_no_lock];
    a_dropped_acquire_stops_half_way => [a_dropped_acquire_leaves_no_lock];
}
