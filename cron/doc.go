// Package cron tells at which instants a cron expression fires in a time zone, what it
// does where the zone's clocks change, and what it says about that.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with seconds
// before them, down to * * * * * * for each second. Fields take lists, ranges, steps and
// English names of months and days; ? is *, 7 is Sunday, and a range may wrap around, such
// as FRI-MON or 22-2. L, W and # are refused. Then @yearly, @annually, @monthly, @weekly,
// @daily, @midnight, @hourly, and @every with a duration of at least a second. A day has to
// match both day fields if one of them begins with a star, as */2 does, and one of them
// otherwise. That is what Vixie's cron does.
//
// The parser is robfig/cron's, once texts are brought into its form; when a spec fires
// is not, since it loses fires at changes of the clocks.
//
// # Clock changes
//
// An expression whose hours are all hours follows elapsed time: it fires whenever the
// clock on the wall shows a time that matches, on the 23 or 25 hours that such a day has.
// Any other names times of the day, and each of them is to come once a day. Where clocks go
// forward over such times, it fires once when they have ([RunAfter]), or not at all
// ([SkipForward]). Where they go back over such times, it fires at the first of the two
// ([First]), at the second ([Second]), or at both ([Both]).
package cron
