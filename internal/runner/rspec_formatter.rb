# Towpath's RSpec formatter: appends what happens to the file named by $TOWPATH_EVENTS, one JSON object a line, as it
# happens, so that what was known survives a process that hangs or dies.
require "json"
require "rspec/core"

class TowpathFormatter
  RSpec::Core::Formatters.register self, :start, :example_started, :example_passed, :example_failed, :example_pending,
                                   :message, :stop

  LIMIT = 16 * 1024

  def initialize(_output)
    path = ENV["TOWPATH_EVENTS"]
    @events = path && File.open(path, "a")
    @begun = nil
    @outside = 0
    @ms = Hash.new(0)
    @failed = Hash.new(false)
    @seen = []
    @pid = Process.pid
  end

  # All examples are loaded now: which there are is known before the first one runs.
  def start(_notification)
    RSpec.world.ordered_example_groups.each { |group| declare(group) }
  end

  def example_started(notification)
    file = file_of(notification.example)
    if @begun != file
      finish(@begun)
      @begun = file
      @seen << file unless @seen.include?(file)
      tell(t: "file", file: file)
    end
    tell({t: "start"}.merge(describe(notification.example)))
  end

  def example_passed(notification)
    settle(notification.example, "passed", "", "")
  end

  def example_pending(notification)
    settle(notification.example, "skipped", notification.example.execution_result.pending_message.to_s, "")
  end

  def example_failed(notification)
    @failed[file_of(notification.example)] = true
    error = notification.exception
    message = error ? error.message.to_s.strip : "failed"
    settle(notification.example, "failed", message, notification.fully_formatted(1))
  end

  # RSpec reports an error outside of the examples, as in loading a file, as a message.
  def message(notification)
    text = notification.message.to_s
    if text =~ /An error occurred (while loading|in an?) (.*?)\.?$/
      file = File.expand_path($2.strip)
      if $1 == "while loading" && File.exist?(file)
        cause = text.lines.map(&:strip).reject(&:empty?).drop(1)
        kind = cause.index { |l| l =~ /\A[A-Z][\w:]*:\z/ } # the class of the error stands alone, its message below
        message = kind ? "#{cause[kind]} #{cause[kind + 1]}" : cause.first || "the file cannot be loaded"
        tell(t: "file", file: file)
        tell(t: "end", file: file, state: "failed", ms: 0, message: cut(message), detail: cut(text))
        @failed[file] = true
        @seen << file
        @loaded_badly = true
        return
      end
      tell(t: "unhandled", file: @begun || "", message: cut(text.lines.map(&:strip).reject(&:empty?)[0, 4].to_a.join(" ")), detail: cut(text))
      return
    end
    $stdout.puts text
  end

  def stop(_notification)
    finish(@begun)
    @begun = nil
    # A file without examples ran too: there was nothing in it.
    unless @loaded_badly
      RSpec.configuration.loaded_spec_files.each do |file|
        next if @seen.include?(file)
        tell(t: "file", file: file)
        tell(t: "end", file: file, state: "passed", ms: 0)
      end
    end
    tell(t: "over")
  end

  private

  def declare(group)
    group.filtered_examples.each { |e| tell(t: "list", file: file_of(e), cases: [describe(e)]) }
    group.children.each { |child| declare(child) }
  end

  # The file that was asked for, also if the example stands in shared examples of another.
  def file_of(example)
    File.expand_path(example.metadata[:rerun_file_path] || example.metadata[:file_path])
  end

  def describe(example)
    groups = example.example_group.parent_groups.reverse.map { |g| g.description.to_s }
    {file: file_of(example), id: example.id, path: groups + [example.description.to_s], full: example.id}
  end

  def settle(example, state, message, detail)
    ms = (example.execution_result.run_time || 0) * 1000
    @ms[file_of(example)] += ms
    tell({t: "case", state: state, ms: ms, message: cut(message), detail: cut(detail)}.merge(describe(example)))
  end

  def finish(file)
    return unless file
    tell(t: "end", file: file, state: @failed[file] ? "failed" : "passed", ms: @ms[file])
    @ms[file] = 0
  end

  def cut(text)
    text = text.to_s.dup.force_encoding("UTF-8").scrub
    text.length > LIMIT ? text[0, LIMIT] + "…" : text
  end

  def tell(event)
    return unless @events && Process.pid == @pid
    @events.write(JSON.generate(event) + "\n")
    @events.flush
    $stdout.write("\x1e")
    $stdout.flush
  end
end
