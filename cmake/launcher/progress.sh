# shellcheck shell=bash disable=SC2154  # root and jobs are the launcher's
# The progress of a build or a test, on standard error; sourced by ./meshbed. On a terminal one line is rewritten; elsewhere a
# line is printed every MESHBED_PROGRESS_SECONDS (10). The steps are ninja's, weighted by the time of each in the previous build.

duration() {
  if (($1 < 120)); then printf '%d s' "$1"; else printf '%d min %d s' "$(($1 / 60))" "$(($1 % 60))"; fi
}

# name_step DESCRIPTION: sets REPLY to the name of ninja's step: "compiling plugin/net", "linking bin/meshbed".
name_step() {
  local room parent
  case $1 in
    "Building "*CMakeFiles/*.dir/*)
      room=${1#*CMakeFiles/}
      room=${room%%.dir/*}
      room=${room#meshbed_}
      room=${room%_objects}
      if [[ $room == *_tests ]]; then
        REPLY="compiling tests/${room%_tests}"
        return
      fi
      # Parts of a room with options of their own.
      case $room in
        net_*) room=net ;;
        ptx | cuda*) room=cuda ;;
        gpu_model | fits) room=models ;;
        coll_* | reduce_*) room=coll ;;
        cli_*) room=cli ;;
        testbed_* | values | library | libmeshbed) room=testbed ;;
        python_module) room=python ;;
      esac
      for parent in plugin/ sim/ ''; do
        if [[ -d $root/$parent$room ]]; then break; fi
      done
      REPLY="compiling $parent$room"
      ;;
    "Linking "*) REPLY="linking ${1##* }" ;;
    *) REPLY=$1 ;;
  esac
}

# plan_of FOLDER TARGET...: the pending steps of ninja, in its order, a line "WEIGHT DESCRIPTION" each. WEIGHT is the
# step's time in the previous build in milliseconds, the mean if only other steps are known, and 0 if none is. Status 1:
# ninja has no work to do.
plan_of() {
  local folder=$1 output
  shift
  # With another file name ninja does not check whether CMake has to run first, as it does for build.ninja.
  [[ -L $folder/.meshbed-plan.ninja ]] || ln -sf build.ninja "$folder/.meshbed-plan.ninja"
  output=$(NINJA_STATUS='[%f/%t] ' ninja -C "$folder" -f .meshbed-plan.ninja -n "$@" 2>/dev/null) || true
  [[ $output != *"ninja: no work to do."* ]] || return 1
  {
    cat "$folder/.ninja_log" 2>/dev/null || true
    printf '%s\n' "$output"
  } | awk -F '\t' '
    NF == 5 { took[$4] = $2 - $1; next }
    sub(/^\[[0-9]+\/[0-9]+\] /, "") { step[++steps] = $0 }
    END {
      for (i = 1; i <= steps; ++i) {
        output = step[i]; sub(/.* /, "", output)
        weight[i] = (output in took) ? took[output] : -1
        if (weight[i] >= 0) { sum += weight[i]; ++known }
      }
      for (i = 1; i <= steps; ++i) print (weight[i] >= 0 ? weight[i] : (known ? int(sum / known) : 0)) " " step[i]
    }'
}

# follow LABEL PLAN: reads the output of ninja, ctest or CMake, and shows their progress on standard error: on a terminal
# in one line that is rewritten, elsewhere in a line at once (if there is a plan) and one every MESHBED_PROGRESS_SECONDS.
follow() {
  local label=$1 plan=$2 period=${MESHBED_PROGRESS_SECONDS:-10} begun=$SECONDS terminal=0 weight description line
  local partial='' doing='' finished=0 total=0 first=0 all_weight=0 done_weight=0 expected_s=0 next status columns
  local -a steps=() names=()
  local -A weights=() is_done=() of_name=() done_of_name=()
  if [[ ${progress:-} == off ]]; then
    cat >/dev/null
    return
  fi
  if [[ -t 2 ]]; then terminal=1 period=1 columns=$(tput cols 2>/dev/null || echo 80); fi
  while read -r weight description; do
    name_step "$description"
    ((weight > 0)) && expected_s=1
    if ((weight == 0)); then
      # No earlier build to compare with: typical times of each kind of step.
      case $description in
        *cli_*_objects*/Unity/* | *testbed_*_objects*/Unity/*) weight=32000 ;;
        */Unity/*) weight=12000 ;;
        Building\ *) weight=2500 ;;
        *) weight=1000 ;;
      esac
    fi
    ((all_weight += weight))
    steps+=("$description") names+=("$REPLY") weights[$description]=$weight
    of_name[$REPLY]=$((${of_name[$REPLY]:-0} + 1))
  done <"$plan"
  total=${#steps[@]}
  ((expected_s)) && expected_s=$((all_weight / jobs / 1000))

  # say_how_far SECONDS_GONE
  say_how_far() {
    local text gone=$1 half weight_now left=0 name
    while ((first < ${#steps[@]})) && [[ -n ${is_done[${steps[first]}]:-} ]]; do ((first += 1)); done
    if ((first < ${#steps[@]})); then
      name=${names[first]} doing=$name
      ((${of_name[$name]} > 1)) && doing+=" ($((${done_of_name[$name]:-0} + 1)) of ${of_name[$name]})"
    fi
    text="$label:"
    ((total == 0)) || text+=" $finished of $total done"
    if ((total > 0 && finished < total && ${#steps[@]} > 0)); then
      # Running steps count as half done.
      half=$((jobs < total - finished ? jobs : total - finished))
      weight_now=$((done_weight + half * (all_weight - done_weight) / (total - finished) / 2))
      if ((finished > 0)); then left=$((gone * (all_weight - weight_now) / weight_now)); else left=$((expected_s - gone)); fi
    fi
    if ((gone > 0)); then
      [[ $text == *: ]] || text+=,
      text+=" $(duration "$gone") gone"
    fi
    ((left <= 0)) || text+=", about $(duration "$left") left"
    [[ -z $doing ]] || text+="; $doing"
    if ((terminal)); then
      printf '\r\033[K%.*s' "$((columns - 1))" "meshbed: $text" >&2
    else
      say "$text"
    fi
  }

  # The first line shows nothing done, even if reading the plan took long.
  if ((total > 0)); then say_how_far 0; fi
  next=$((SECONDS + period))
  while true; do
    status=0
    IFS= read -r -t "$((next > SECONDS ? next - SECONDS : 1))" line || status=$?
    line=$partial$line partial=
    if ((status > 128)); then
      partial=$line  # time is over; keep the partial line
    elif ((status > 0)); then
      break
    elif [[ $line =~ ^\[[0-9]+/[0-9]+\]\ (.*) ]]; then
      description=${BASH_REMATCH[1]}
      weight=${weights[$description]:-}
      if [[ -n $weight && -z ${is_done[$description]:-} ]]; then
        name_step "$description"
        is_done[$description]=1
        done_of_name[$REPLY]=$((${done_of_name[$REPLY]:-0} + 1))
        ((finished += 1, done_weight += weight))
      fi
    elif [[ $line =~ ^\ *([0-9]+)/([0-9]+)\ Test\ +\#[0-9]+:\ ([^ ]+) ]]; then  # ctest
      finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]} doing="the last one ${BASH_REMATCH[3]}"
    elif ((total == 0)) && [[ $line == --\ * ]]; then  # CMake
      doing=${line#-- }
    fi
    if ((SECONDS >= next)); then
      say_how_far "$((SECONDS - begun))"
      next=$((SECONDS + period))
    fi
  done
  if ((terminal)); then printf '\r\033[K' >&2; fi
}

# with_progress LABEL PLAN COMMAND...: shows the progress of the command, and its output only if it fails.
with_progress() {
  local label=$1 plan=$2 log begun=$SECONDS status=0
  shift 2
  log=$(mktemp)
  NINJA_STATUS='[%f/%t] ' "$@" 2>&1 </dev/null | tee "$log" | follow "$label" "$plan" || status=$?
  if ((status != 0)); then
    grep -v '^\[[0-9]*/[0-9]*\] ' "$log" >&2 || true
    say "$label failed"
  elif ((SECONDS - begun > 5)) && [[ ${progress:-} != off ]]; then
    say "$label: done in $(duration "$((SECONDS - begun))")"
  fi
  rm -f "$log"
  return "$status"
}
